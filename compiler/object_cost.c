/* object_cost.c -- modelled clocks of a loop from its instructions and cost.def.
 *
 * In: a loop body, spelt out, the chip, how many of the workgroup's waves share a SIMD.  Out: clocks a SIMD needs until each of them has
 * done one pass, and the matrix share.  The model: one wave issues in order, and a matrix instruction occupies the matrix pipe
 * while other instructions of the wave go on beside it (packed f32 ones do not); several waves overlap freely.  So
 *
 *     clocks = max(one wave's pass alone, waves * (VALU issue | matrix | LDS | vector memory) clocks)
 *     matrix_share = sum of (useful FLOPs / the class's full rate) / clocks
 *
 * Dependencies, latencies, waits and bank conflicts are not in it: the figure is what the instruction mix allows. */
#include "object_code.h"

#include <stdlib.h>
#include <string.h>

enum matrix_class { HALF, BYTE, FOUR, F32, XF32, F64, F8F6F4 };
enum { CHIPS = 2, RATES = 6 };

static const struct { const char *name; double rate[RATES]; } chips[CHIPS] = {
#define CHIP(name, ...) {#name, {__VA_ARGS__}},
#include "cost.def"
};
static const struct { const char *name; enum matrix_class cls; double flops; double clocks[CHIPS]; } matrix[] = {
#define MFMA(name, cls, flops, ...) {name, cls, flops, {__VA_ARGS__}},
#include "cost.def"
};
static const struct { const char *prefix; double clocks[CHIPS]; } costs[] = {
#define COST(prefix, ...) {prefix, {__VA_ARGS__}},
#include "cost.def"
};

static double cost_of(const struct object_ins *ins, int chip)
{
	for (unsigned i = 0; i < sizeof costs / sizeof *costs; i++)
		if (object_is(ins, costs[i].prefix))
			return costs[i].clocks[chip];
	return 4;
}

/* Format number of one operand of an f8f6f4 instruction: 0 fp8, 1 bf8, 2 fp6, 3 bf6, 4 fp4. */
static int operand_format(const char *text, const char *key)
{
	const char *p = strstr(text, key);
	return p ? p[strlen(key)] - '0' : 0;
}

/* Clocks of the matrix pipe, and those that the same FLOPs take at their class's full rate. */
static void matrix_cost(const struct object_ins *ins, int chip, double *busy, double *ideal)
{
	size_t len = strcspn(ins->text, " \t");
	*busy = 16;
	*ideal = 0;
	for (unsigned i = 0; i < sizeof matrix / sizeof *matrix; i++) {
		if (strlen(matrix[i].name) != len || memcmp(matrix[i].name, ins->text, len))
			continue;
		enum matrix_class cls = matrix[i].cls;
		*busy = matrix[i].clocks[chip];
		if (cls == F8F6F4) {
			bool narrow = operand_format(ins->text, "cbsz:") >= 2 && operand_format(ins->text, "blgp:") >= 2;
			cls = narrow ? FOUR : BYTE;
			*busy /= narrow ? 2 : 1;
		}
		double rate = chips[chip].rate[cls] / 4;   /* of one of the CU's four SIMDs */
		*ideal = rate > 0 ? matrix[i].flops / rate : 0;
		return;
	}
}

static double largest(double a, double b) { return a > b ? a : b; }

void object_loop_clocks(const struct object_listing *l, int first, int last, const char *chip_name, int waves, double *clocks, double *share)
{
	int chip = 0;
	while (chip < CHIPS - 1 && strcmp(chips[chip].name, chip_name))
		chip++;
	double valu = 0, busy = 0, ideal = 0, lds = 0, vmem = 0;
	double now = 0, matrix_free = 0, start = 0;
	/* Two passes: the second starts with the matrix pipe as the first leaves it. */
	for (int pass = 0; pass < 2; pass++) {
		valu = busy = ideal = lds = vmem = 0;
		start = now;
		for (int i = first; i <= last; i++) {
			const struct object_ins *ins = &l->ins[i];
			double cost = cost_of(ins, chip), slot = 4;
			switch ((enum object_unit)ins->unit) {
			case UNIT_MFMA: {
				double b, f;
				matrix_cost(ins, chip, &b, &f);
				now = largest(now, matrix_free);
				matrix_free = now + b;
				busy += b;
				ideal += f;
				valu += slot;
				break;
			}
			case UNIT_PACKED:
				now = largest(now, matrix_free);
				valu += slot = cost;
				break;
			case UNIT_VALU: case UNIT_TRANS:
				valu += slot = cost;
				break;
			case UNIT_NOP:
				slot = 4 * (1 + strtod(ins->text + strcspn(ins->text, " "), NULL));   /* "s_nop 3" waits 4 slots */
				break;
			case UNIT_LDS:
				lds += cost;
				break;
			case UNIT_VMEM:
				vmem += cost;
				break;
			default:
				slot = cost;
			}
			now += slot;
		}
	}
	*clocks = largest(largest(now - start, waves * valu), waves * largest(busy, largest(lds, vmem)));
	*share = *clocks > 0 ? waves * ideal / *clocks : 0;
}
