/* banks.c -- what the lanes of a wave cost each other in group memory.
 * In: the byte at which each lane's access begins, and how many bytes it is of.  Out: the rounds that it takes.
 * In a round each of 32 banks gives one word of 4 bytes; as many lanes take part as ask for 128 bytes between them, the others follow, and
 * different words of one bank are given one after the other. */
#include "machine.h"

enum { BANKS = 32, WORD = 4 };

/* The most words that one bank has to give. */
static int round_of(const int *byte, int lanes, int words)
{
	int asked[BANKS], n = 0, most = 0, of_bank[BANKS] = {0};
	for (int i = 0; i < lanes * words; i++) {
		int word = byte[i / words] / WORD + i % words, seen = 0;
		while (seen < n && asked[seen] != word)
			seen++;
		if (seen < n)
			continue;
		asked[n++] = word;
		if (++of_bank[word % BANKS] > most)
			most = of_bank[word % BANKS];
	}
	return most;
}

int lds_rounds(const int *byte, int lanes, int bytes)
{
	int words = bytes < WORD ? 1 : bytes / WORD, together = BANKS / words, rounds = 0;
	for (int first = 0; first < lanes; first += together)
		rounds += round_of(byte + first, together, words);
	return rounds;
}
