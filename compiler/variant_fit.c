/* variant_fit.c -- a variant's object, in smaller tiles where the planned ones do not fit.
 * In: an elaborated kernel, a variant as planned, a session.  Out: the object, and the variant as it was built.
 *
 * How many registers the code of a kernel takes is known when it is compiled: masks, addresses and what an epilogue holds beside its
 * accumulators are not counted beforehand.  Where the gate finds spills, or tiles need more group memory than there is, the variant is
 * built again: with operands of products that are loaded when they are used, and with products of single waves, not of four together; on AMD's chips with arguments that are loaded where they are used, then
 * with scalars, and no more than these, in lanes of vector registers, a move each time; on all with the larger side of its tiles halved, then by
 * workgroups of twice the waves, on AMD's then with shorter tiles of its loops, and the same once more with scalars in lanes.  Where none of it helps,
 * NVIDIA's chips keep the rest on a stack, which is slow, but a call is not refused for it.  On others it can be left out where another takes its
 * calls: one of any call, the same for fewer columns, one that sweeps rows, or one without the size that a pack line gives.  The same where a pass finds
 * that no registers hold a tile.  A schedule's own tiles are kept: who writes them wants to hear that they do not fit; and
 * so are those of workgroups that wait for each other, of which larger ones would not all be there.  What is built is checked: no axis that is held
 * may be longer, by what the variant asks for, than its tile. */
#include "affine.h"
#include "compile.h"
#include "ir.h"
#include "object.h"
#include "pass.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_PRODUCT = 32 };                     /* side of a tile of products, whose halves the instructions make whole, 16 at a time */

static bool is_tiled_axis(const struct ir_kernel *k, int phase, const char *name, enum ir_axis_kind kind)
{
	for (int p = 0; p < k->nphases; p++)
		for (int a = 0; (phase < 0 || p == phase) && a < k->phases[p].naxes; a++)
			if (k->phases[p].axes[a].kind == kind && k->phases[p].axes[a].tiled && strcmp(k->phases[p].axes[a].name, name) == 0)
				return true;
	return false;
}

static bool is_tile_of(const struct ir_kernel *k, const struct variant *v, int t, enum ir_axis_kind kind)
{
	return is_tiled_axis(k, v->tiles[t].phase, v->tiles[t].axis, kind);
}

/* Halves the largest sides of tiles along axes of a kind, the last of equal ones, in all phases alike, but where the axis of that name is another; false
 * where all are small. */
static bool halve_tiles(const struct ir_kernel *k, struct variant *v, enum ir_axis_kind kind)
{
	int largest = -1, least = 1;
	for (int p = 0; p < k->nphases; p++)
		least = ir_has(k->phases[p].body, IR_DOT) ? LEAST_PRODUCT : least;
	for (int t = 0; t < v->ntiles; t++)
		if (v->tiles[t].tile > least && v->tiles[t].tile % least == 0 && is_tile_of(k, v, t, kind) &&
		    (largest < 0 || v->tiles[t].tile >= v->tiles[largest].tile))
			largest = t;
	if (largest < 0)
		return false;
	int most = v->tiles[largest].tile;
	for (int t = 0; t < v->ntiles; t++)
		if (v->tiles[t].tile == most && strcmp(v->tiles[t].axis, v->tiles[largest].axis) == 0 && is_tile_of(k, v, t, kind))
			v->tiles[t].tile = most / 2;
	return true;
}

static bool double_waves(const struct variant *v, int *waves)
{
	if (!*waves || 2 * *waves * v->target->wave > v->target->max_threads)
		return false;
	*waves *= 2;
	return true;
}

/* Of phases that have waves of their own; which of them does not fit is not known. */
static bool double_apart(struct variant *v)
{
	bool any = false;
	for (int i = 0; i < v->napart; i++)
		any = double_waves(v, &v->apart[i].waves) || any;
	return any;
}

static bool make_smaller(const struct ir_kernel *k, struct variant *v)
{
	if (v->scheduled || v->joined)                   /* of larger workgroups fewer are there at a time, and they wait for each other */
		return false;
	if (halve_tiles(k, v, AXIS_GRID))
		return true;
	return double_apart(v) || double_waves(v, &v->waves) || (!target_is_nvptx(v->target) && halve_tiles(k, v, AXIS_LOOP));
}

/* What a variant asks for fits in what it holds: a plan that is wrong there would leave positions out. */
static int check_held(const struct ir_kernel *final, const struct variant *v, char *err, size_t errlen)
{
	for (int p = 0; p < final->nphases && !v->stream; p++)
		for (int a = 0; a < final->phases[p].naxes; a++) {
			const struct ir_axis *ax = &final->phases[p].axes[a];
			if (!axis_is_beyond(ax, v))
				continue;
			snprintf(err, errlen, "internal: axis %s is longer than the tile of %d that was planned for it", ax->name, ax->tile);
			return -1;
		}
	return 0;
}

static int build(struct arena *a, const struct ir_kernel *k, const struct variant *v, struct object_session *session, struct variant_code *out, char *err,
                 size_t errlen)
{
	struct ir_kernel *final;
	int rc = run_passes(a, k, v, NULL, &final, err, errlen);
	rc = rc ? rc : check_held(final, v, err, errlen);
	return rc ? rc : variant_code(a, final, v, session, out, err, errlen);
}

int variant_build(struct arena *a, const struct ir_kernel *k, struct variant *v, struct object_session *session, struct variant_code *out, char *err,
                  size_t errlen)
{
	struct variant planned = *v;
	char other[400];
	int rc = build(a, k, v, session, out, err, errlen);
	if (rc == OBJECT_SPILLS && v->quads && v->piped) {
		v->piped = false;
		rc = build(a, k, v, session, out, other, sizeof other);
		v->piped = rc;
	}
	if (rc == OBJECT_SPILLS && v->quads) {
		v->quads = planned.quads = false;
		rc = build(a, k, v, session, out, err, errlen);
	}
	if (rc == OBJECT_SPILLS && v->piped) {
		v->piped = planned.piped = false;
		rc = build(a, k, v, session, out, err, errlen);
	}
	if (rc == OBJECT_SPILLS && !target_is_nvptx(v->target)) {         /* whose arguments lie in memory anyway */
		v->late_arguments = true;
		rc = build(a, k, v, session, out, other, sizeof other);
	}
	if (rc == OBJECT_SPILLS && !target_is_nvptx(v->target) && !v->scheduled) {
		v->spills = true;
		rc = build(a, k, v, session, out, other, sizeof other);
		v->spills = !rc;
	}
	while (rc == OBJECT_SPILLS && make_smaller(k, v))
		rc = build(a, k, v, session, out, other, sizeof other);
	if (rc == OBJECT_SPILLS && !v->scheduled) {
		*v = planned;
		v->spills = true;
		v->late_arguments = !target_is_nvptx(v->target);
		rc = target_is_nvptx(v->target) ? build(a, k, v, session, out, other, sizeof other) : rc;
	}
	while (rc == OBJECT_SPILLS && !target_is_nvptx(v->target) && make_smaller(k, v))
		rc = build(a, k, v, session, out, other, sizeof other);
	if (rc)
		*v = planned;
	return rc;
}

/* Of the same calls, but for their sizes. */
static bool asks_alike(const struct variant *a, const struct variant *b)
{
	bool alike = a->npins == b->npins && a->aligned == b->aligned && a->single == b->single && a->given == b->given && a->absent == b->absent;
	for (int i = 0; alike && i < a->npins; i++)
		alike = a->pins[i].symbol == b->pins[i].symbol && a->pins[i].value == b->pins[i].value;
	return alike;
}

/* A class of fewer positions, whose tiles along other axes may be larger for that: by what it says of symbols, or, of groups, by its own number. */
static bool is_of_fewer(const struct variant *less, const struct variant *v)
{
	bool fewer = false, alike = less->nlimits == v->nlimits;
	for (int i = 0; alike && i < v->nlimits; i++) {
		alike = less->limits[i].symbol == v->limits[i].symbol && less->limits[i].least <= v->limits[i].least && less->limits[i].most <= v->limits[i].most;
		fewer = fewer || less->limits[i].most < v->limits[i].most;
	}
	return alike && (fewer || (less->holds && less->holds < v->holds));
}

/* The same plan with smaller tiles: of classes of sizes those for fewer, if not along each axis. */
static bool is_smaller(const struct variant *less, const struct variant *v)
{
	double part = 1;
	bool alike = asks_alike(less, v) && less->stream == v->stream && less->ntiles == v->ntiles;
	for (int i = 0; alike && i < v->ntiles; i++) {
		alike = less->tiles[i].phase == v->tiles[i].phase && strcmp(less->tiles[i].axis, v->tiles[i].axis) == 0;
		part *= (double)less->tiles[i].tile / v->tiles[i].tile;
	}
	return alike && (part < 1 || is_of_fewer(less, v));
}

/* Rows of any size that `v` would hold: swept. */
static bool is_swept(const struct variant *all, const struct variant *v)
{
	return all->stream && !v->stream && !v->npins && asks_alike(all, v);
}

static bool asks_no_more(const struct variant *all, const struct variant *v)
{
	bool alignment = !all->aligned || (v->aligned && (all->single || !v->single));
	return alignment && !(all->given & ~v->given) && !(all->absent & ~v->absent) && !all->many && !all->cluster;
}

/* Of calls of some size that `v` is for, among others. */
static bool is_of_more_sizes(const struct variant *all, const struct variant *v)
{
	bool takes = all->npins < v->npins && asks_no_more(all, v);
	for (int i = 0; i < v->npins; i++) {
		const int64_t n = v->pins[i].value;
		for (int l = 0; l < all->nlimits; l++)
			takes = takes && (all->limits[l].symbol != v->pins[i].symbol || (n >= all->limits[l].least && n <= all->limits[l].most));
		for (int m = 0; m < all->nmultiples; m++)
			takes = takes && (all->multiples[m].symbol != v->pins[i].symbol || n % all->multiples[m].multiple == 0);
	}
	for (int i = 0; i < all->npins && takes; i++) {
		bool same = false;
		for (int j = 0; j < v->npins; j++)
			same = same || (all->pins[i].symbol == v->pins[j].symbol && all->pins[i].value == v->pins[j].value);
		takes = same;
	}
	return takes;
}

bool variant_is_spare(const struct variant *all, int n, int v)
{
	if ((v == n - 1 && !all[v].predicate) || all[v].scheduled)
		return false;
	bool any = !all[n - 1].predicate;                /* the last takes what all others do not */
	for (int i = 0; i < n && !any; i++)
		any = is_smaller(&all[i], &all[v]) || is_swept(&all[i], &all[v]) || is_of_more_sizes(&all[i], &all[v]);
	return any;
}
