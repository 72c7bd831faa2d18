/* sim_mfma_test.c -- the layouts and modifiers of every matrix instruction against tables of AMD's.
 *
 * In: tests/sim/mfma_layout.def, which names its sources.  Each instruction multiplies small random integers, whose sums are exact in any order, so
 * that only their places matter (roundings: sim_exec_test.c).  With every cbsz, abid and blgp that it takes: B's lanes for blgp, and A's block
 * for cbsz and abid, are those of the same calculator (_get_blgp_transformed_lane, _get_cbsz_abid_transformed_block); blgp of f64 negates
 * A, B and C by a bit each.  Others must stop the wave.  The forms of f8f6f4 run with every pair of formats, without scales and with scales from
 * each byte of their registers.  An instruction without a row, but for the sparse ones, fails the test. */
#include "sim_single.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum element { F32, XF32, F16, BF16, I8, FP8, BF8, FP6, BF6, FP4, F64 };
static const int bits_of[] = {32, 32, 16, 16, 8, 8, 8, 6, 6, 4, 64};

struct place { int reg, bit, lane; };
struct layout {
	const char *name;
	int chips, m, k, blocks;
	enum element a, b;
	bool broadcasts, permutes, formats;
	struct place (*operand)(int x, int k, int b, enum element e);
	struct place (*result)(int i, int j, int b);
};

#define M(name, chips, m, k_, blocks, a, b_, cb, bl, reg, bit, lane, dreg, dlane) \
	static struct place operand_##name(int x, int k, int b, enum element e) { (void)x, (void)k, (void)b, (void)e; return (struct place){reg, bit, lane}; } \
	static struct place result_##name(int i, int j, int b) { (void)i, (void)b; return (struct place){dreg, 0, dlane}; }
#define F(name, m, k_, of8, lane8, smaller, lane, dreg, dlane) \
	static struct place operand_##name(int x, int k, int b, enum element e) { (void)b; return (struct place){0, bits_of[e] * (bits_of[e] == 8 ? of8 : smaller), bits_of[e] == 8 ? lane8 : lane}; } \
	static struct place result_##name(int i, int j, int b) { (void)b; return (struct place){dreg, 0, dlane}; }
#include "sim/mfma_layout.def"
#undef M
#undef F
static const struct layout layouts[] = {
#define M(name, chips, m, k, blocks, a, b, cb, bl, reg, bit, lane, dreg, dlane) {#name, chips, m, k, blocks, a, b, cb, bl, false, operand_##name, result_##name},
#define F(name, m, k, of8, lane8, smaller, lane, dreg, dlane) {#name, 2, m, k, 1, FP8, FP8, false, false, true, operand_##name, result_##name},
#include "sim/mfma_layout.def"
#undef M
#undef F
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, A = 0, B = 16, C = 32, D = 64, SCALE_A = 100, SCALE_B = 101 };

static struct sim_single one;
static const char *const chips[] = {"gfx942", "gfx950"};

static uint64_t state = 88172645463325252u;
static uint32_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20);
}

/* -3 .. 3 as codes of an element, which all formats hold. */
static uint64_t code_of(int v, enum element e)
{
	static const uint8_t six[2][4] = {{0, 0x08, 0x10, 0x14}, {0, 0x0c, 0x10, 0x12}}, four[4] = {0, 2, 4, 5};
	bool fnuz = one.object.chip->fp8_fnuz;
	double d = v;
	uint64_t u;
	switch (e) {
	case F32: case XF32: return num_bits((float)v);
	case F16: return num_from_f32((float)v, DT_F16, false);
	case BF16: return num_from_f32((float)v, DT_BF16, false);
	case I8: return (uint8_t)v;
	case FP8: return num_from_f32((float)v, fnuz ? DT_E4M3FNUZ : DT_E4M3, false);
	case BF8: return num_from_f32((float)v, fnuz ? DT_E5M2FNUZ : DT_E5M2, false);
	case FP6: case BF6: return six[e == BF6][abs(v)] | (v < 0 ? 32u : 0);
	case FP4: return four[abs(v)] | (v < 0 ? 8u : 0);
	default: memcpy(&u, &d, 8); return u;
	}
}

static void put(int first, struct place p, int bits, uint64_t code)
{
	for (int n = 0; n < bits; n++) {
		int at = p.bit + n;
		uint32_t *v = &one.vgpr[first + p.reg + at / 32][p.lane], mask = 1u << at % 32;
		*v = code >> n & 1 ? *v | mask : *v & ~mask;
	}
}

static double get(int first, struct place p, const struct layout *t)
{
	uint32_t v = one.vgpr[first + p.reg][p.lane];
	double d;
	if (t->a == F64) {
		uint64_t u = v | (uint64_t)one.vgpr[first + p.reg + 1][p.lane] << 32;
		memcpy(&d, &u, 8);
		return d;
	}
	return t->a == I8 ? (double)(int32_t)v : (double)num_float(v);
}

/* The lane that a lane of B is read from. */
static int permuted(int lane, unsigned blgp)
{
	switch (blgp) {
	case 0: return lane;
	case 1: return lane % 32;
	case 2: return lane < 32 ? lane + 32 : lane;
	case 3: return (lane + 16) % 64;
	default: return lane % 16 + 16 * ((int)blgp - 4);
	}
}

struct form { unsigned cbsz, abid, blgp; enum element a, b; bool scaled; unsigned sel[2]; };

/* What the lanes hold, by lane and element: found again through the table, as B's lanes may be read elsewhere. */
static int held[2][16][64][32];

static int *value_at(int operand, struct place p, int bits, int lane)
{
	int at = 32 * p.reg + p.bit, n = bits == 64 ? 0 : at / bits;
	return &held[operand][n / 32][lane][n % 32];
}

static int words_of(const struct layout *t, const struct form *f, uint32_t w[4])
{
	const struct sim_row *row = sim_row_of(t->name);
	uint32_t *main = f->scaled ? w + 2 : w;
	ck_assert_msg(row != NULL, "%s", t->name);
	main[0] = 0xd3800000u | (uint32_t)row->opcode << 16 | (f->scaled ? 1 : f->abid) << 11 | f->cbsz << 8 | D;
	main[1] = (256 + A) | (256 + B) << 9 | (uint32_t)(256 + C) << 18 | (uint32_t)f->blgp << 29;
	if (f->scaled) {
		w[0] = 0xd3800000u | (uint32_t)sim_row_of("v_mfma_ld_scale_b32")->opcode << 16 | (f->sel[0] & 1) << 11 | (f->sel[1] & 1) << 12;
		w[1] = (256 + SCALE_A) | (256 + SCALE_B) << 9 | (f->sel[0] >> 1) << 27 | (f->sel[1] >> 1) << 28;
	}
	return f->scaled ? 4 : 2;
}

static void fill(const struct layout *t, const struct form *f)
{
	const enum element e[2] = {f->a, f->b};
	for (int r = 0; r < 256; r++)
		for (int l = 0; l < LANES; l++)
			one.vgpr[r][l] = draw();
	for (int o = 0; o < 2; o++)
		for (int b = 0; b < t->blocks; b++)
			for (int x = 0; x < t->m; x++)
				for (int k = 0; k < t->k; k++) {
					struct place p = t->operand(x, k, b, e[o]);
					int v = (int)(draw() % 7) - 3;
					put(o ? B : A, p, bits_of[e[o]], code_of(v, e[o]));
					*value_at(o, p, bits_of[e[o]], p.lane) = v;
				}
	for (int b = 0; b < t->blocks; b++)
		for (int i = 0; i < t->m; i++)
			for (int j = 0; j < t->m; j++) {
				int v = (int)(draw() % 2001) - 1000;
				put(C, t->result(i, j, b), t->a == F64 ? 64 : 32, t->a == I8 ? (uint32_t)v : code_of(v, t->a == F64 ? F64 : F32));
			}
	for (int r = SCALE_A; r <= SCALE_B; r++)
		for (int l = 0; l < LANES; l++)
			one.vgpr[r][l] = (124 + draw() % 7) | (124 + draw() % 7) << 8 | (124 + draw() % 7) << 16 | (124 + draw() % 7) << 24;
}

static double scale_at(int reg, int lane, unsigned sel) { return ldexp(1, (int)(one.vgpr[reg][lane] >> 8 * sel & 255) - 127); }

static void agrees(const struct layout *t, const struct form *f)
{
	static double want[16][32][32];
	uint32_t w[4];
	int n = words_of(t, f, w);
	fill(t, f);
	for (int b = 0; b < t->blocks; b++)
		for (int i = 0; i < t->m; i++)
			for (int j = 0; j < t->m; j++) {
				int from = t->broadcasts ? b / (1 << f->cbsz) * (1 << f->cbsz) + (int)f->abid : b;
				double sum = get(C, t->result(i, j, b), t) * (t->a == F64 && f->blgp & 4 ? -1 : 1);
				for (int k = 0; k < t->k; k++) {
					struct place p = t->operand(i, k, from, f->a), q = t->operand(j, k, b, f->b);
					double x = *value_at(0, p, bits_of[f->a], p.lane), y = *value_at(1, q, bits_of[f->b], t->permutes && t->a != F64 ? permuted(q.lane, f->blgp) : q.lane);
					if (t->a == F64)
						x *= (f->blgp & 1) ^ (f->blgp >> 1 & 1) ? -1 : 1;
					if (f->scaled) {
						x *= scale_at(SCALE_A, t->m * (k / 32) + i, f->sel[0]);
						y *= scale_at(SCALE_B, t->m * (k / 32) + j, f->sel[1]);
					}
					sum += x * y;
				}
				want[b][i][j] = sum;
			}
	sim_single_run(&one, t->name, w, n);
	for (int b = 0; b < t->blocks; b++)
		for (int i = 0; i < t->m; i++)
			for (int j = 0; j < t->m; j++) {
				double got = get(D, t->result(i, j, b), t);
				ck_assert_msg(got == want[b][i][j], "%s cbsz:%u abid:%u blgp:%u%s: D[%d][%d] of block %d is %g, not %g", t->name, f->cbsz, f->abid, f->blgp,
					f->scaled ? " scaled" : "", i, j, b, got, want[b][i][j]);
			}
}

static void modifiers(const struct layout *t)
{
	for (unsigned cbsz = 0; cbsz < 8; cbsz++)
		for (unsigned abid = 0; abid < 16; abid++)
			for (unsigned blgp = 0; blgp < 8; blgp++) {
				struct form f = {cbsz, abid, blgp, t->a, t->b, false, {0, 0}};
				bool takes = (t->broadcasts ? 1 << cbsz <= t->blocks && abid < 1u << cbsz : cbsz == 0 && abid == 0) && (t->permutes || blgp == 0);
				uint32_t w[4];
				int n = words_of(t, &f, w);
				if (takes)
					agrees(t, &f);
				else
					ck_assert_msg(!sim_single_takes(&one, w, n), "%s takes cbsz:%u abid:%u blgp:%u", t->name, cbsz, abid, blgp);
			}
}

static void formats(const struct layout *t)
{
	static const enum element format[] = {FP8, BF8, FP6, BF6, FP4};
	for (unsigned a = 0; a < 8; a++)
		for (unsigned b = 0; b < 8; b++)
			for (unsigned sel = 0; sel < 5; sel++) {
				struct form f = {a, 0, b, a < 5 ? format[a] : FP8, b < 5 ? format[b] : FP8, sel < 4, {sel, (sel + b + 1) % 4}};
				uint32_t w[4];
				int n = words_of(t, &f, w);
				if (a < 5 && b < 5)
					agrees(t, &f);
				else
					ck_assert_msg(!sim_single_takes(&one, w, n), "%s takes format %u or %u", t->name, a, b);
			}
}

START_TEST(layouts_are_amds)
{
	sim_single_start(&one, chips[_i]);
	for (int n = 0; n < LAYOUTS; n++) {
		const struct layout *t = &layouts[n];
		if (t->chips >> _i & 1)
			(t->formats ? formats : modifiers)(t);
	}
	for (int i = 0; i < sim_nrows; i++) {
		bool has = strncmp(sim_rows[i].name, "v_mfma_", 7) != 0 || !(sim_rows[i].chips >> _i & 1) || !strcmp(sim_rows[i].name, "v_mfma_ld_scale_b32");
		for (int k = 0; k < LAYOUTS && !has; k++)
			has = !strcmp(layouts[k].name, sim_rows[i].name) && layouts[k].chips >> _i & 1;
		ck_assert_msg(has, "no row for %s of %s", sim_rows[i].name, chips[_i]);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim_mfma");
	TCase *t = tcase_create("layouts");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, layouts_are_amds, 0, 2);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
