/* order.c -- what a block computes, each part in front of what first needs it.
 * In: a function, written operation by operation, each over all that a lane holds.  Out: the same instructions; loads, stores, exchanges
 * and barriers in their order, in front of each what it needs and nothing else has needed before.
 * ptxas keeps long blocks much as they are: a lane of a tile that is scaled both ways would hold all its elements in units of one scale
 * and of the other at a time (docs/performance.md).  Of rows, ptxas makes as good an order itself, and asks for more at once. */
#include "machine.h"

#include <string.h>

/* A block in the old order, and one in the new: an instruction that has moved has the latter for a parent. */
struct order { LLVMBuilderRef b; LLVMBasicBlockRef from; };

static LLVMAttributeRef attribute(LLVMValueRef function, const char *name)
{
	return LLVMGetEnumAttributeAtIndex(function, LLVMAttributeFunctionIndex, LLVMGetEnumAttributeKindForName(name, strlen(name)));
}

/* May be computed anywhere in front of its uses. */
static bool is_free(LLVMValueRef i)
{
	if (LLVMIsATerminatorInst(i) || LLVMIsAPHINode(i) || LLVMIsALoadInst(i) || LLVMIsAStoreInst(i) || LLVMIsAAtomicRMWInst(i) ||
	    LLVMIsAAtomicCmpXchgInst(i) || LLVMIsAFenceInst(i) || LLVMIsAAllocaInst(i))
		return false;
	if (!LLVMIsACallInst(i))
		return true;
	LLVMValueRef f = LLVMGetCalledValue(i);
	if (LLVMIsAInlineAsm(f)) {
		size_t n;
		const char *text = LLVMGetInlineAsmAsmString(f, &n);
		return !LLVMGetInlineAsmHasSideEffects(f) && !memmem(text, n, "ld.", 3);     /* a load under a mask, to LLVM of nothing that changes */
	}
	LLVMAttributeRef memory = attribute(f, "memory");
	return memory && LLVMGetEnumAttributeValue(memory) == 0 && !attribute(f, "convergent");
}

static void put(struct order *o, LLVMValueRef i)
{
	for (int a = 0; !LLVMIsAPHINode(i) && a < LLVMGetNumOperands(i); a++) {
		LLVMValueRef x = LLVMGetOperand(i, (unsigned)a);
		if (LLVMIsAInstruction(x) && LLVMGetInstructionParent(x) == o->from && is_free(x))
			put(o, x);
	}
	LLVMInstructionRemoveFromParent(i);
	LLVMInsertIntoBuilder(o->b, i);
}

static void move_all(LLVMBuilderRef b, LLVMBasicBlockRef from, LLVMBasicBlockRef to)
{
	LLVMPositionBuilderAtEnd(b, to);
	for (LLVMValueRef i; (i = LLVMGetFirstInstruction(from));) {
		LLVMInstructionRemoveFromParent(i);
		LLVMInsertIntoBuilder(b, i);
	}
}

void emit_order(struct emit *e)
{
	struct order o = {LLVMCreateBuilderInContext(e->ctx), NULL};      /* of its own: instructions keep the lines that they have */
	LLVMBasicBlockRef to = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	for (o.from = LLVMGetFirstBasicBlock(e->fn); o.from != to; o.from = LLVMGetNextBasicBlock(o.from)) {
		LLVMPositionBuilderAtEnd(o.b, to);
		for (LLVMValueRef i = LLVMGetFirstInstruction(o.from), next; i; i = next) {
			next = LLVMGetNextInstruction(i);                     /* what i needs stands in front of it */
			if (!is_free(i) && !LLVMIsATerminatorInst(i))
				put(&o, i);
		}
		move_all(o.b, o.from, to);                                /* what other blocks use, and the branch to them */
		move_all(o.b, to, o.from);
	}
	LLVMDeleteBasicBlock(to);
	LLVMDisposeBuilder(o.b);
}
