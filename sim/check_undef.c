#include "check.h"
void undef_start(struct check_wave *c, const struct sim_wave *w) { (void)c, (void)w; }
bool undef_before(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u) { (void)c, (void)w, (void)in, (void)u; return true; }
