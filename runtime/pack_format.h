/* pack_format.h -- the bytes of a kernel pack; docs/pack.md says the same in prose.
 *
 * header | index | dictionary | reports | code objects.  All integers little endian.  The index is an array of sections; records are fixed-size and
 * refer to others by number, to strings by offset into the string section and to host-expression bytes by offset and size
 * into the code section, so that a mapped file is used as it lies.  Every byte is covered by a checksum: the header by its own,
 * the index by the header's, the dictionary, the reports and each code object by their records'. */
#ifndef TDSL_PACK_FORMAT_H
#define TDSL_PACK_FORMAT_H
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "packs are read in place: little endian hosts only"
#endif

#define PACK_MAGIC "TDSLPACK"
enum { PACK_OVERLAPS = 1, PACK_TOGETHER = 2, PACK_MEETS = 4 }; /* pack_launch.flags: model_launch.overlaps, .together, .meets */
/* pack_kernel.flags: model_kernel.has_workspace, .pointwise, whose symbols' numbers are in a byte each. */
enum { PACK_WORKSPACE = 1, PACK_POINTWISE = 2, PACK_ROWS_SHIFT = 8, PACK_COLUMNS_SHIFT = 16, PACK_KERNEL_FLAGS = 0xffff03 };
enum { PACK_VERSION = 5, PACK_MAX_OBJECT = 1 << 28, PACK_MAX_DICTIONARY = 1 << 20, PACK_MAX_REPORTS = 1 << 28, PACK_MAX_KERNARG = 4096 };

enum pack_section {
	PS_STRINGS, PS_CODE, PS_META, PS_KERNELS, PS_PARAMS, PS_SYMBOLS, PS_REQUIRES, PS_INSTANCES, PS_TYPES, PS_VARIANTS,
	PS_LAUNCHES, PS_KARGS, PS_EXPRS, PS_OBJECTS, PS_PARTS, PS_COUNT
};

enum pack_part_kind { PP_DICTIONARY, PP_REPORTS, PP_COUNT }; /* the records of PS_PARTS */

struct pack_header {
	char magic[8];
	uint32_t version, header_bytes;
	uint64_t total_bytes;
	uint64_t index_offset, index_bytes, index_hash;   /* XXH3-64 of the index */
	uint64_t header_hash;                             /* XXH3-64 of the header's bytes before this field */
};

struct pack_section_ref { uint32_t offset, count; };      /* offset from the index's start; count of records (bytes of PS_STRINGS, PS_CODE) */
struct pack_index { struct pack_section_ref sections[PS_COUNT]; };

struct pack_code_ref { uint32_t offset, size; };          /* size 0 = none */
struct pack_range { uint32_t first, count; };

struct pack_meta { uint32_t tdsl_version, llvm_version, options, licence, fp8, source, source_name, pad; uint64_t source_hash[2]; };

struct pack_kernel {
	uint32_t name, doc, flags;                        /* PACK_WORKSPACE .. */
	struct pack_range params, symbols, requires, instances, variants;
};

enum { PACK_PARAM_TENSOR = 1, PACK_PARAM_OPTIONAL = 2, PACK_PARAM_DEFAULT = 4, PACK_PARAM_LIST = 8 };
struct pack_param {
	double default_value;
	uint32_t name;
	uint8_t flags, role, rank, pad;
	struct pack_code_ref extent[6];
};

struct pack_symbol { int64_t mul, add; uint32_t name; int32_t tensor, dim; uint32_t pad; };
struct pack_require { struct pack_code_ref expr; uint32_t text; };
struct pack_instance { uint32_t name, types; };           /* types: first of nparams records of PS_TYPES */
struct pack_type { uint8_t code, bits, native, pad; };    /* DLPack code and bits; native as in model_instance */

struct pack_variant {
	uint32_t instance, target, predicate_text, object, report_json; /* report_json: offset into the reports, 0 = none */
	struct pack_code_ref predicate, workspace;
	struct pack_range launches;
};

struct pack_launch {
	uint32_t symbol;
	uint16_t block, flags;
	uint32_t kernarg_bytes;
	struct pack_code_ref grid[3], lanes;              /* lanes: of a workgroup, at most `block`; none = as many */
	struct pack_range kargs, exprs;
	int32_t vgpr, agpr, sgpr, lds, scratch, spills, instructions, barriers;
};

struct pack_karg { uint8_t kind, a, b, size; uint32_t offset; };

/* Offsets from the file's start; raw_bytes: unpacked; hash: XXH3-64 as stored. */
struct pack_object { uint64_t offset, bytes, raw_bytes, hash; uint32_t target, pad; };
struct pack_part { uint64_t offset, bytes, raw_bytes, hash; };         /* bytes 0 = none */
#endif
