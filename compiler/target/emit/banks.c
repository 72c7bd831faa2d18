/* banks.c -- what the lanes of a wave cost each other in group memory.
 * In: the byte at which each lane's access begins, how many bytes it is of, how many banks there are.  Out: the rounds that it takes.
 * In a round each bank gives one word of 4 bytes; as many lanes take part as ask for a word of each between them, the others follow, and
 * different words of one bank are given one after the other.  Lanes take part in the order of their numbers; that of gfx950's reads of 16 bytes
 * is another (sim/exec_lds.c counts by it), which is left out here: on its simulation the padding chosen so takes a third to three fifths of the
 * clocks that it took. */
#include "machine.h"

enum { WORD = 4 };

/* The most words that one bank has to give. */
static int round_of(const int *byte, int lanes, int words, int banks)
{
	int asked[LDS_MOST_BANKS][LDS_MOST_BANKS], n[LDS_MOST_BANKS] = {0}, most = 0;
	for (int i = 0; i < lanes * words; i++) {
		int word = byte[i / words] / WORD + i % words, bank = word % banks, seen = 0;
		while (seen < n[bank] && asked[bank][seen] != word)
			seen++;
		if (seen == n[bank])
			asked[bank][n[bank]++] = word;
		most = n[bank] > most ? n[bank] : most;
	}
	return most;
}

int lds_rounds(const int *byte, int lanes, int bytes, int banks)
{
	int words = bytes < WORD ? 1 : bytes / WORD, together = banks / words < lanes ? banks / words : lanes, rounds = 0;
	for (int first = 0; first < lanes; first += together)
		rounds += round_of(byte + first, together, words, banks);
	return rounds;
}

int lds_banks(const struct target *t, int bytes, bool read) { return read && bytes > WORD ? t->lds_wide_banks : t->lds_banks; }
