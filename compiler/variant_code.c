/* variant_code.c -- one variant's final tile IR to its code object and what is in it.
 * In: laid out IR, the variant, a session.  Out: the object's bytes, its launches and facts.
 *
 * A row kernel is compiled in the order of its tile IR first (shim_emit's `order`).  Where that order holds more values at a time than
 * there are registers, which the gate sees as spills, it is compiled a second time with LLVM's scheduler, which may hold fewer. */
#include "compile.h"
#include "object.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LLVM ends the process on what is no IR. */
static int verify_module(LLVMModuleRef module, char *err, size_t errlen)
{
	char *why = NULL;
	bool broken = LLVMVerifyModule(module, LLVMReturnStatusAction, &why);
	if (broken)
		snprintf(err, errlen, "internal: %.*s", (int)(why ? strcspn(why, "\n") : 0), why ? why : "");
	LLVMDisposeMessage(why);
	return broken ? -1 : 0;
}

/* again: in the order in which it stands it holds more than there are registers. */
static int attempt(struct arena *a, const struct ir_kernel *final, const struct variant *v, struct object_session *session, bool again,
                   struct variant_code *out, char *err, size_t errlen)
{
	*out = (struct variant_code){0};
	int rc = translate(a, final, v, object_context(session), &out->made, err, errlen);
	if (rc)
		return rc;
	LLVMModuleRef module = out->made.module;
	out->made.module = NULL;
	if (verify_module(module, err, errlen)) {
		LLVMDisposeModule(module);
		return -1;
	}
	enum shim_order order = !out->made.ordered ? SHIM_OWN : again ? SHIM_RESCHEDULED : out->made.tiles ? SHIM_KEPT : SHIM_KEPT_PLAIN;
	out->made.ordered = out->made.ordered && !again;
	if (object_build(session, v->target, module, order, &out->elf, &out->size, err, errlen))
		return -1;
	rc = object_facts(a, v->target, out->elf, out->size, v->spills ? OBJECT_MAY_SPILL : OBJECT_GATED, &out->facts, &out->nfacts, err, errlen);
	if (rc) {
		free(out->elf);
		out->elf = NULL;
	}
	return rc;
}

int variant_code(struct arena *a, const struct ir_kernel *final, const struct variant *v, struct object_session *session, struct variant_code *out,
                 char *err, size_t errlen)
{
	int rc = attempt(a, final, v, session, false, out, err, errlen);
	if (rc == OBJECT_SPILLS && out->made.ordered)
		rc = attempt(a, final, v, session, true, out, err, errlen);
	return rc;
}
