/* stats.c -- statistics of launches as JSON.  In: the counters.  Out: one object on one line, the same for every tool. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

size_t sim_stats_json(const struct sim_stats *s, char *buf, size_t len)
{
	static const char *const class_name[SIM_NCLASS] = {
		[SIM_VALU] = "valu", [SIM_SALU] = "salu", [SIM_MFMA] = "mfma", [SIM_LDS] = "lds", [SIM_VMEM] = "vmem",
		[SIM_SMEM] = "smem", [SIM_WAIT] = "wait", [SIM_BARRIER] = "barrier", [SIM_BRANCH] = "branch", [SIM_OTHER] = "other",
	};
	const struct { const char *name; uint64_t value; } more[] = {
		{"waves", s->waves}, {"workgroups", s->workgroups}, {"mfma_flops", s->mfma_flops},
		{"global_read", s->global_read}, {"global_written", s->global_written},
		{"lds_read", s->lds_read}, {"lds_written", s->lds_written}, {"lds_conflicts", s->lds_conflicts},
	};
	size_t at = 0;
	uint64_t total = 0;
#define PUT(...) (at += (size_t)snprintf(at < len ? buf + at : NULL, at < len ? len - at : 0, __VA_ARGS__))
	for (int i = 0; i < SIM_NCLASS; i++) {
		total += s->inst[i];
		PUT("%s\"%s\":%" PRIu64, i ? "," : "{", class_name[i], s->inst[i]);
	}
	PUT(",\"instructions\":%" PRIu64, total);
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
		PUT(",\"%s\":%" PRIu64, more[i].name, more[i].value);
	PUT("}");
#undef PUT
	return at;
}
