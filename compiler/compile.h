/* compile.h -- from one elaborated kernel to the pieces of a pack: the order of work and the types handed on.
 *
 *   plan.c       which variants an instance gets on a target (predicates, pinned sizes, tile sizes)
 *   passes       pass.def: specialise, schedule, simplify, math, reduce, stream, layout, loads ..; run_passes
 *   target/...   IR with layouts -> LLVM IR -> object (object.h) -> facts read back
 *   driver.c     text -> struct model_pack: loops over kernels, instances, targets, variants on threads */
#ifndef TDSL_COMPILE_H
#define TDSL_COMPILE_H
#include <llvm-c/Types.h>
#include "../base/model.h"
#include "../dsl/dsl.h"
#include "ir.h"

struct turned_tile { int rows, columns, each; };   /* each: elements of a lane */

/* Facts of a chip that passes and translation ask for; one row each in target/targets.c. */
struct target {
	const char *name;          /* "gfx942" */
	const char *triple, *cpu, *features;  /* "amdgcn-amd-amdhsa", "gfx942", "": LLVM's names */
	int wave, registers;       /* lanes of a wave; registers that the lanes of a compute unit share */
	int lds_bytes, max_threads;    /* of a workgroup */
	int lds_banks, lds_wide_banks; /* of group memory, a word of 4 bytes each; that reads of 8 and 16 bytes find */
	uint8_t lds_fours[8];          /* of each half of a wave, in which order reads of 16 bytes serve its fours of lanes; zeros = as they come */
	int few_threads, vectors;      /* of a workgroup without reductions across it; accesses of 16 bytes that its lanes begin before they wait */
	int tile_threads;              /* of a workgroup that holds groups both ways, whose code an element is short: a compute unit has room for two */
	/* Tiles of a matrix that are turned in group memory; of few rows; where lanes access single elements; both; of rows that such a tile holds whole.  All
	 * but the first where variants of that kind are planned. */
	struct turned_tile turned, turned_few, turned_single, turned_few_single, turned_narrow_single;
	int ahead_bytes;               /* that workgroups read between asking the L2 for a line and the one that loads it; 0 = it is not asked */
	int line_ahead_bytes;          /* the same of long lines of which nothing is reduced */
	int l2_bytes;                  /* that its L2 holds; where no lines are asked for ahead or kept it does not matter, and is 0 */
	int early_bytes;               /* that the first workgroups ask the L2 for before they wait for the launch in front; 0 = nothing */
	int early_counted;             /* the same of rows that are there most often, where those that are there are counted over many groups */
	int gap_workgroups;            /* so many at most, about, for rows of which some may not be there: one that starts costs the same where its row is not; 0 = one a row */
	int counted_workgroups;        /* so many at most where rows that are there are counted over all groups, or tiles of so many by 256 threads; where gap_workgroups is not 0 */
	int counted_least;             /* and of rows so many at least: eight a multiprocessor */
	int added_threads;             /* of a workgroup that adds up parts of sums at most; of those of many workgroups that carry sums, so many */
	int added_parts;               /* of sums, that a lane loads at once where parts are added up: the more, the fewer rounds, and the longer the code of few parts */
	int resident_threads;          /* of a multiprocessor at a time, where registers leave room; 0 = nothing is planned by it */
	int multiprocessors;           /* or compute units, that rows are shared among where sums are carried from one to the next; 0 = they are not */
	bool joins;                    /* phases may be one launch: all its workgroups run at a time, or there is an error */
	bool stored_first;             /* lines that are stored best leave its L2 before those that were read */
	int fast_memory;               /* GB/s of its memory from which a chip of the target is planned for as a fast one; 0 = its chips are alike */
	bool sideways;                 /* what workgroups that follow each other write best lies side by side */
	int cluster;                   /* workgroups that may start together and reach each other's group memory; 0 = none do */
	int line_bytes;                /* that a workgroup best has side by side where rows are made of such; 0 = any */
	bool few_rows;                 /* few rows of a fixed size have variants of their own, of little code: it is fetched from memory too */
	bool whole_chunks;             /* rows of a fixed size are cut into what a workgroup accesses at once, in few waves */
	bool unaligned;                /* accesses of 16 bytes may begin at any element */
	bool more_variants;            /* packs have room for variants that others go without: those of the AMD chips hold 1,200 of rows */
	bool widens_again;             /* bf16 and f16 are widened again behind a reduction, not held as f32 */
	bool late_weights;             /* loads of weights move behind a reduction where a lane has many: registers for one workgroup more are worth the wait */
	int staged_bytes;              /* of weights that a workgroup has come by way of group memory, asked for with the row that its cluster holds (emit/stage.c); 0 = none do */
	int ring_bytes;                /* of group memory, that rows which are on their way may have on a multiprocessor; 0 = they come to registers */
	bool whole_runs;               /* lanes whose run of elements is there as a whole store it at once, though others' masks end within theirs */
	bool late_stores;              /* what is stored element by element, or perhaps not at all, is stored last: early it holds more registers */
	bool reads_ahead;          /* waves issue in order, and LLVM's order is the code's: a product's operands are read from group memory a step before it */
	bool fp8_fnuz;             /* native fp8 is FNUZ */
	bool cvt_pk_bf16;          /* v_cvt_pk_bf16_f32 */
	bool cvt_pk_fp4;           /* v_cvt_scalef32_pk_fp4_f32 */
	bool lanes_share;          /* what lanes of a wave would all make of the same results is made by one of them each, and handed on by exchanges */
	bool f32_pairs;            /* an f32 operation may take two registers at a time */
	bool three_extremes;       /* an instruction has the largest, or the least, of three */
	bool lanes_adjacent;       /* an access is fast where the lanes' bytes lie side by side, not merely where each lane's are many */
	bool cvt8_clamps;          /* conversions to i8 and native fp8 clamp by themselves */
	bool mode_clamps;          /* those to native fp8 do in a mode of the wave, in which overflowing f16 becomes its largest number, too */
	const struct mfma *mfma; int nmfma;   /* matrix instructions, best first (target/mfma.h) */
	const struct quad *quads; int nquads; /* those of four waves together; none: each wave multiplies by itself */
};
const struct target *target_by_name(const char *);
const char *target_names(void);                            /* "gfx942, gfx950, .." */
bool target_is_nvptx(const struct target *);               /* objects are PTX or cubins */

enum { PHASES_APART = 4 };                                 /* of a variant, at most */

/* Of which calls lines that are stored leave the L2 before those that are read: of none, of those that read no more than it holds, of all but small ones. */
enum stored_first { STORED_AS_READ, STORED_FIRST_OF_FEW, STORED_FIRST };

enum { PACE_PARTS = 16 };                                  /* of a ns, that variant.pace counts */

/* A variant of an instance on a target: when it applies, and the choices made for it. */
struct variant {
	const struct hexpr *predicate; const char *text;      /* NULL, "any" */
	const struct target *target;
	struct { int symbol; int64_t value; } pins[8]; int npins;         /* symbols that are constants here */
	struct { int symbol; int64_t multiple; } multiples[8]; int nmultiples; /* symbol % multiple == 0 holds here */
	struct { int symbol; int64_t least, most; } limits[8]; int nlimits;   /* least <= symbol <= most holds here */
	int64_t holds;                                         /* of a class of sizes: so many positions of axes that are held, in plan_unit's; 0 = of none */
	bool aligned, flat;                                    /* all tensors: HX_ALIGNED, HX_FLAT hold */
	uint64_t unit;                                         /* but of these (bit = parameter) HX_UNIT alone: numbers of groups, whose rows end anywhere */
	uint64_t dense;                                        /* of these (bit = parameter) rows lie one behind the other: their stride is the extent of a row, a number */
	bool single;                                           /* elements are accessed one by one; where aligned as well, HX_UNIT alone holds of all tensors */
	int list_multiple;                                     /* that divides the length of each tensor of the lists; 0 = nothing known */
	bool piped;                                            /* what products contract is loaded a round of their loop before it is used (emit/pipe.c) */
	bool quads;                                            /* four waves multiply together, from operands that rounds before have brought to group memory (emit/quad.c) */
	bool heads;                                            /* rows of a tile are heads that share what loops load, not positions (pass_heads.c) */
	bool late_arguments;                                   /* tensors' pointers and strides are loaded at each access: of many tensors they fill the scalar registers */
	bool spills;                                           /* what registers do not hold may lie on the stack, NVIDIA's, or scalars of it in lanes, AMD's */
	bool scheduled;                                        /* tiles and waves are the text's own */
	int waves;                                             /* in a workgroup, at most; 0 = the schedule pass decides */
	struct { int phase, waves; } apart[PHASES_APART]; int napart;     /* phases whose workgroups have others */
	struct { int phase; const char *axis; int tile; } tiles[2 * LAYOUT_AXES]; int ntiles; /* chosen tile sizes by phase (-1: all) and axis name */
	enum stored_first stored_first;                        /* lines that it stores leave the L2 before those that it reads */
	bool gaps;                                             /* of its rows some are not there (pass_guard.c): how many it reads is not known */
	bool waves_vary;                                       /* lanes access several elements at once: a launch has the waves that its rows need (emit/waves.c) */
	bool full;                                             /* of a class of sizes: lanes hold as many elements as those of rows of a fixed size */
	bool sideways;                                         /* workgroups that follow each other hold what lies side by side in rows, not one row behind another */
	int ahead;                                             /* so many workgroups later, in the grid's order, is the one whose tile the L2 is asked for; 0 = none */
	int ahead_from;                                        /* more workgroups than these: what fewer move the L2 holds, and is asked for nothing */
	int cluster;                                           /* workgroups that hold rows whole between them: two phases made one (pass_fuse.c), or long rows (pass_spread.c); 0 = each has its own */
	int carries;                                           /* workgroups that take all rows between them and carry sums of columns from row to row (pass_carry.c); 0 = rows have their own */
	int carried_columns;                                   /* in rows so long there are as many workgroups; of longer ones a multiprocessor has in proportion fewer, one at least; 0 = as many of all */
	int beside;                                            /* rows that each of these takes at a time, a part of its waves or of their lanes each; 0 = one */
	bool uneven;                                           /* their number need not divide that of rows: the last of them may not be there */
	bool pieces;                                           /* these workgroups share columns as well: of a row each takes a piece */
	int rounds;                                            /* of rows that it carries sums over, so many have places in group memory, that in hand and those on their way; 0 = they come to registers */
	bool next;                                             /* a round loads the next one's rows, to registers (pass_next.c) */
	const struct hexpr *pace;                              /* how long such a round takes at least, in 1/PACE_PARTS ns (emit/pace.c); NULL = it does not matter */
	bool late;                                             /* half of the tensors of a row that comes so are asked for behind a round's barrier */
	bool joined;                                           /* its phases are one launch: its workgroups, for all of which the chip has room at a time, wait for each other between them (emit/joined.c) */
	bool many;                                             /* rows beside each other: for few there are other variants */
	bool few;                                              /* one of these others */
	bool slow;                                             /* for chips whose memory is slower than target.fast_memory */
	bool alone;                                            /* each row of a workgroup has a wave of its own, which waits for no other */
	bool instead;                                          /* of what the variant before those so marked holds: built where that one does not fit */
	bool shares;                                           /* rows lie beside each other in the lanes of a wave (plan_short.c) */
	bool abreast;                                          /* rows of a workgroup lie in the same lanes, which hold what they share once */
	bool stream;                                           /* held axes without a tile that fits: sweep them */
	uint64_t given, absent;                                /* optional tensors (bit = parameter) that are there, that are not; in neither: unknown */
};

/* Waves in a workgroup of a phase. */
int variant_waves(const struct variant *, int phase);
/* Workgroups of one that carries sums that a multiprocessor has at most; 0 = it carries none. */
int variant_each(const struct variant *);
int variant_beside(const struct variant *);                             /* rows that each of its workgroups takes at a time, one at least */
/* Bytes of group memory that a workgroup of a launch asks for at least, so that no more find room on a multiprocessor than are to share one: those that
 * carry sums of pieces of rows, and, of a launch behind sums of rows, those of which there is one for each.  A launch that begins before those in front
 * are done would else have more of them where there is room first, and those would decide how long it takes.  0 = it does not matter. */
int variant_least_lds(const struct variant *, int phase);
/* Lanes access several elements at once: those of aligned rows, or, where the chip can, those that a call has side by side. */
bool variant_in_runs(const struct variant *);
/* A tensor of which the variant does not know that it is there: at a null pointer it is not. */
bool variant_may_lack(const struct variant *, const struct ir_kernel *, int64_t tensor);
/* Of rows of a class the least is known as well: but for a lane's last access they are there. */
bool variant_is_between(const struct variant *);

/* Whether the products of a kernel can have the tiles and waves that its schedule says for the target; where not, a message says which. */
bool plan_takes_schedule(const struct ir_kernel *, const struct dsl_kernel *text, const struct target *, struct diag *);
/* The same for no target in particular: what the schedule says for one must fit there, what it says for any must fit some. */
bool plan_takes_schedule_somewhere(const struct ir_kernel *, const struct dsl_kernel *text, struct diag *);

/* Variants for an instance, most specific first, the last one always applicable.  `k` elaborated for the target, which takes its schedule; special: what the
 * pack lines specialise, NULL = nothing. */
int plan_variants(struct arena *, const struct ir_kernel *k, const struct dsl_kernel *text, const struct dsl_special *special,
                  const struct target *, struct variant **out, int *n, char *err, size_t errlen);

/* What pack lines specialise, and besides the set that a variant's text names: "N=4096 aligned with w", "any"; the set may be one of theirs. */
const struct dsl_special *variant_special(struct arena *, const struct dsl_special *, const char *text);

/* The symbols of rows and columns of a kernel to which rows mean nothing (model_kernel.pointwise). */
bool kernel_is_pointwise(struct arena *, const struct ir_kernel *, const struct target *, int *rows, int *columns);

/* Runs the passes on a clone of `generic` for a variant; stops after the pass called `until` (NULL = all).  The result is ready
 * for translation: layouts everywhere.  0; OBJECT_SPILLS where registers do not hold what the plan asks for; -1; text in both. */
int run_passes(struct arena *, const struct ir_kernel *generic, const struct variant *, const char *until,
               struct ir_kernel **out, char *err, size_t errlen);
/* Names of the passes in order, NULL-terminated, for `dump --stage`. */
const char *const *pass_names(void);

/* What translation makes: the module; whether its instructions are in pass_loads.c's order (a row kernel); whether it keeps tiles in group memory, or so much that addresses are made for it; the launches (symbol names, blocks, grids, argument blocks; resources are filled from the object
 * by object_facts); bytes of workspace (NULL = none); what the variant's predicate must ask besides (NULL = nothing): strides that
 * its 32-bit offsets inside a tile can follow. */
struct translated { LLVMModuleRef module; bool ordered, tiles; struct model_launch *launches; int nlaunches; const struct hexpr *workspace, *condition; };

/* Final IR -> LLVM module in `context`.  0; OBJECT_SPILLS where tiles need more group memory than there is; -1.  On error err names the .tdsl
 * line and nothing is left in `out`. */
int translate(struct arena *, const struct ir_kernel *final, const struct variant *, LLVMContextRef context, struct translated *out,
              char *err, size_t errlen);

/* Final IR -> code object (malloc'ed), its launches (made.module is gone) and the facts of its kernels, past the gate.  0, or with text
 * and nothing to free OBJECT_SPILLS, where registers or group memory do not suffice, or -1. */
struct object_facts;
struct object_session;
struct variant_code { struct translated made; void *elf; size_t size; struct object_facts *facts; int nfacts; };
int variant_code(struct arena *, const struct ir_kernel *final, const struct variant *, struct object_session *, struct variant_code *out,
                 char *err, size_t errlen);
/* Passes and code of a variant, which gets smaller tiles where those planned do not fit.  0, or with the text for the planned ones OBJECT_SPILLS, where
 * none fit, or -1. */
int variant_build(struct arena *, const struct ir_kernel *generic, struct variant *, struct object_session *, struct variant_code *out,
                  char *err, size_t errlen);
/* Number v of all that an instance has on a target: one that is not missed where it does not fit, for the last takes any call, or there is the same for
 * fewer columns, or rows are swept. */
bool variant_is_spare(const struct variant *all, int n, int v);

/* The whole way for one text.  Lists end in NULL; a NULL list means both targets, all kernels, the pack block's instances. */
struct compile_options {
	const char *const *targets; const char *const *kernels; const char *const *instances;
	const char *const *variants;                           /* texts of predicates: those alone; NULL = all */
	const char *given;                                     /* optional tensors, "w res": variants for exactly these besides; NULL = none */
	bool given_alone;                                      /* for these and no others */
	int jobs;                                              /* threads; 0 = one per core */
	const char *library;                                   /* text of the language's library; NULL = the one built in */
	bool keep_going;                                       /* build the rest after a kernel failed; the result is an error all the same */
	bool check;                                            /* elaborate every declared instance, build nothing */
	/* Called by any thread after each variant, with how many are done; NULL = not. */
	void (*progress)(void *progress_data, int done, int total, const char *kernel);
	void *progress_data;
};
struct compile_result { struct arena arena; struct model_pack pack; char *messages; };
/* 0, or -1; messages (in the arena; NULL = none) holds all diagnostics, warnings too.  The pack, the messages and their order do
 * not depend on the number of jobs. */
int compile_text(const char *text, size_t n, const char *file, const struct compile_options *, struct compile_result *);
void compile_result_free(struct compile_result *);
#endif
