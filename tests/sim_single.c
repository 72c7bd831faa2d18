/* sim_single.c -- see sim_single.h. */
#include "sim_single.h"

#include <check.h>

const struct sim_row sim_rows[] = {
#define I(e, o, name, chips, family, operands, n) {#name, ENC_##e, o, chips},
#include "../sim/inst.def"
#undef I
};
const int sim_nrows = sizeof sim_rows / sizeof *sim_rows;

const struct sim_row *sim_row_of(const char *name)
{
	for (int i = 0; i < sim_nrows; i++)
		if (!strcmp(sim_rows[i].name, name))
			return &sim_rows[i];
	return NULL;
}

void sim_single_start(struct sim_single *s, const char *chip)
{
	memset(s, 0, sizeof *s);
	s->kernel = (struct sim_kernel){.name = "instruction", .vgprs = 256, .accum_offset = 256};
	s->object = (struct sim_object){.chip = sim_chip_by_name(chip)};
	s->launch = (struct sim_launch){.object = &s->object, .kernel = &s->kernel};
	s->group = (struct sim_group){.launch = &s->launch, .err = s->err, .errlen = sizeof s->err};
	s->wave.vgpr = s->vgpr;
	s->wave.nvgpr = 256;
	s->wave.group = &s->group;
	s->wave.state = WAVE_RUN;
	sim_sgpr64_set(&s->wave, REG_EXEC, ~UINT64_C(0));
}

static void decode(const struct sim_single *s, const uint32_t *words, int n, struct sim_inst *in)
{
	if (!sim_decode(in, words, n, s->object.chip, s->kernel.accum_offset))
		ck_abort_msg("%08x %08x is no instruction of %s", words[0], n > 1 ? words[1] : 0, s->object.chip->name);
}

void sim_single_run(struct sim_single *s, const char *name, const uint32_t *words, int n)
{
	struct sim_inst in;
	decode(s, words, n, &in);
	ck_assert_str_eq(sim_op_name(in.op), name);
	in.exec(&s->wave, &in);
	ck_assert_msg(s->wave.state == WAVE_RUN, "%s: %s", name, s->err);
}

bool sim_single_takes(struct sim_single *s, const uint32_t *words, int n)
{
	struct sim_inst in;
	decode(s, words, n, &in);
	in.exec(&s->wave, &in);
	bool runs = s->wave.state == WAVE_RUN;
	ck_assert_msg(runs || strstr(s->err, "not modelled"), "%s", s->err);
	s->wave.state = WAVE_RUN;
	s->group.error = 0;
	s->err[0] = 0;
	return runs;
}
