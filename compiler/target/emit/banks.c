/* banks.c -- what the lanes of a wave cost each other in group memory.
 * In: the byte at which each lane's access begins, how many bytes it is of, how many banks there are.  Out: the rounds that it takes.
 * In a round each bank gives one word of 4 bytes; as many lanes take part as ask for a word of each between them, the others follow, and
 * different words of one bank are given one after the other.  Lanes take part in the order of their numbers, but in reads of 16 bytes on AMD's chips
 * in one of their own: measured on an MI300X (Avoiding LDS bank conflicts, rocm.blogs.amd.com, July 2025) and an MI355X (HipKittens' phases). */
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

/* The lane that is served as number n: reads of 16 bytes take fours of lanes in an order of the chip's. */
static int lane_served(const struct target *t, int n, int bytes, bool read)
{
	return bytes == 16 && read && t->lds_fours[1] ? n / 32 * 32 + t->lds_fours[n / 4 % 8] * 4 + n % 4 : n;
}

int lds_rounds(const struct target *t, const int *byte, int bytes, bool read)
{
	int banks = read && bytes > WORD ? t->lds_wide_banks : t->lds_banks, words = bytes < WORD ? 1 : bytes / WORD, served[LDS_MOST_LANES], rounds = 0;
	int together = banks / words < t->wave ? banks / words : t->wave;
	for (int n = 0; n < t->wave; n++)
		served[n] = byte[lane_served(t, n, bytes, read)];
	for (int first = 0; first < t->wave; first += together)
		rounds += round_of(served + first, together, words, banks);
	return rounds;
}
