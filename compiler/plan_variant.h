/* plan_variant.h -- a variant in the making: plan.c's state, and what it says of one. */
#ifndef TDSL_PLAN_VARIANT_H
#define TDSL_PLAN_VARIANT_H
#include "plan_facts.h"

/* What lanes hold of a row whose length is fixed. */
enum band {
	BAND_ANY,
	BAND_CROWD,                        /* several rows side by side, of fast memory: for more than the chip's workgroups hold many times over */
	BAND_SLOW,                         /* for chips whose memory is slower than target.fast_memory */
	BAND_LONE,                         /* as those of slow memory, and two workgroups' rows in one */
	BAND_WIDE,                         /* of a length that is no power of two, twice as many elements */
	BAND_MORE                          /* an access, or as few as there are lanes for */
};

/* Rows from `least` on, up to `most`; 0 = of either: however many.  The first that holds counts. */
struct row_band { enum band band; int least, most; };
struct bands { int n; struct row_band of[8]; };

/* Of a class of lengths: from so many rows on, 0 = never, lanes hold as much as those of a fixed length, and whether several rows join in a workgroup;
 * whether lanes of fewer hold a single access. */
struct class_band { int least; bool joins, spread; };
enum { SHORT_ROWS = 256 };             /* columns of the class of short rows that every chip's packs have room for */
/* From which on there are many; of those that may not be there; of long lines; that share a workgroup's lanes; of a crowd. */
enum { MANY_ROWS = 512, MANY_GUARDED = 768, MANY_LINES = 2048, MANY_SHARED = 4096, CROWD_ROWS = 8192 };

struct planner {
	struct arena *arena;
	const struct ir_kernel *k;
	const struct ir_kernel *rows;      /* as k was before rows that it stores across were left to tiles (pass_across.c); NULL = it stores none */
	const struct dsl_kernel *text;
	const struct dsl_special *special;
	const struct dsl_pin *pins; int npins;      /* of the set that is planned for; those of all where sets are not told apart */
	const struct target *target;
	struct facts f;
	uint64_t given, absent;            /* of the set that is planned for; none of both: any tensor may be there or not */
	bool sets;                         /* sets have variants of their own */
	bool unnamed;                      /* the set in hand is no pack line's */
	bool brief;                        /* and has the classes that most calls take alone */
	bool few;                          /* of the variant in hand: one access a lane */
	bool narrow;                       /* of the variant in hand: rows that a tile which is turned holds whole */
	bool broad;                        /* of the variant in hand: tiles of groups both ways for as many rows */
	enum band band;                    /* of the variant in hand (plan_bands.c) */
	bool single;                       /* of the variant in hand: rows begin anywhere, so that elements are accessed one by one */
	int64_t clustered;                 /* aligned rows up to so many have variants in clusters, whatever is there; 0 = none have */
	bool folds;                        /* of the variant in hand: rows may have two strides, as heads of a slice have (HX_FLAT is not asked for) */
	bool torn;                         /* of the variant in hand: rows may end within a group, the rest of which is masked off */
	ARRAY(struct variant) out;
};

static inline int waves_of(const struct planner *p, int threads) { return threads / p->target->wave; }
const struct hexpr *plan_both(struct planner *, const struct hexpr *a, const struct hexpr *b);    /* a and b; NULL asks nothing */
void plan_say(struct planner *, struct variant *, const char *more);                              /* to the variant's text */
/* Of groups of a symbol's positions, how many positions: N<=8192, not cdiv(N, 128)<=64. */
void plan_say_most(struct planner *, struct variant *, const struct hexpr *n, int64_t most);
void plan_pin_symbol(struct planner *, struct variant *, int symbol, int64_t value);
void plan_limit(struct planner *, struct variant *, int symbol, int64_t most);                    /* 1 to `most` */
void plan_range(struct planner *, struct variant *, int symbol, int64_t least, int64_t most);
void plan_rows_from(struct planner *, struct variant *, int least, const struct hexpr *rows);     /* so many of these and more */
void plan_rows_to(struct planner *, struct variant *, int most, const struct hexpr *rows);        /* so many and fewer */
void plan_rows_by(struct planner *, struct variant *, int by, const struct hexpr *rows);           /* a multiple of so many of them */
void plan_memory(struct planner *, struct variant *, bool fast);                                  /* the device's, as target.fast_memory has it */
void plan_aligned(struct planner *, struct variant *);                                            /* tensors, and extents that are multiples */
void plan_dense(struct planner *, struct variant *);               /* rows of pinned extents one behind the other, of all tensors that are there */
struct variant plan_variant(const struct planner *);                                              /* for the set in hand, asking nothing yet */
struct variant *plan_add(struct planner *);
void plan_tile(struct variant *, int phase, const char *axis, int tile);                          /* unless it has one */
bool plan_has_lists(const struct planner *);
bool plan_can_fold(const struct planner *);                        /* rows may have two strides (HX_FLAT) */
int plan_symbol(const struct planner *, const char *name);                                        /* -1 = none */
bool plan_lists_odd(const struct planner *, int symbol, int above, int most);                     /* sizes that no aligned variant takes, of the set in hand */
bool plan_can_sweep(const struct planner *, int phase);                                           /* rows of any length, in chunks */
const struct hexpr *plan_rows_beside(const struct planner *, int symbol);   /* of each axis of a grid, but the last of its positions, the extent, multiplied */
void plan_many_rows(struct planner *, struct variant *, const struct hexpr *rows);                /* so many that few would have another plan */
void plan_rows(struct planner *);                                   /* plan.c: all variants of a kernel without dots, for the set in hand */
/* plan_bands.c: of so many rows, NULL = of one, where the symbol is n; apart: few and many are told apart. */
struct bands plan_bands(struct planner *, int symbol, int64_t n, const struct hexpr *rows, bool apart);
/* Of rows up to so many positions; can_join: several to a workgroup. */
struct class_band plan_class_band(const struct planner *, int longest, bool can_join);
/* plan_uneven.c: of rows held along several axes, where nothing is swept: classes of as many elements as the largest, of which one axis has most. */
void plan_uneven(struct planner *, bool is_aligned);
/* plan_short.c: rows of so many columns that leave lanes of a wave without an access; a workgroup's share of them, of a variant whose alignment is
 * known; variants for classes of them. */
bool plan_is_short(const struct planner *, int64_t columns);
void plan_share_lanes(struct planner *, struct variant *, int64_t columns);
void plan_short_rows(struct planner *);
bool plan_sums_follow(const struct planner *);                          /* phases behind that of the rows only sum groups of them, and the parts that these leave */
bool plan_is_short_line(const struct planner *, int symbol, int64_t columns);                      /* lines of so many are several to a workgroup */
bool plan_is_short_tile(const struct planner *, int symbol, int64_t columns);                      /* the same of tiles */
/* The phase by workgroups of its own, as those of a kernel that has no other; open: whose rows are swept. */
void plan_apart(struct planner *, struct variant *, int phase, bool open);
void plan_clusters(struct planner *);                                                              /* plan_cluster.c: of a kernel whose two phases can be one */
/* plan_cluster.c: of one whose rows a cluster can hold.  pairs: of two workgroups, for rows that one could hold as well, or else of more. */
void plan_long_rows(struct planner *, bool pairs);
/* plan_carry.c: of rows of which columns are summed up.  pieces: where nothing is made of a row whole, alone. */
void plan_carried(struct planner *, bool pieces);
void plan_products(struct planner *);                                                             /* plan_products.c: all variants of a kernel with dots */
#endif
