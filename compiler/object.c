/* object.c -- LLVM module -> code object, linked or assembled: a thread's session and the way through code generation and the linker.
 *
 * In: a module made in the session's context.  Out: the bytes of an ELF, or LLVM's own diagnostics as text.  A session keeps
 * the context and one machine per chip, because making them costs more than compiling a small kernel. */
#include "object.h"

#include <llvm-c/Core.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compile.h"
#include "llvm_shim.h"
#include "object_code.h"

enum { MACHINES = 4, IDLE_SESSIONS = 8, SESSION_BUILDS = 400 };

struct object_session {
	LLVMContextRef context;
	struct { const char *cpu; struct shim_machine *machine; } machines[MACHINES]; int nmachines;
	char diagnostics[2048]; bool failed;
	int builds;                           /* a context keeps every constant and type it ever saw: it is given up after SESSION_BUILDS */
	struct object_session *next_idle;
};

/* Idle sessions of the process: a session costs more than a row kernel, and compiling in process wants one a call. */
static struct { pthread_mutex_t lock; struct object_session *first; int n; } idle = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- work and forks: who works reads, who forks writes; writers first, or steady work would keep a fork waiting */

static pthread_rwlock_t work = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void fork_before(void)
{
	pthread_rwlock_wrlock(&work);
}

static void fork_parent(void)
{
	pthread_rwlock_unlock(&work);
}

static void fork_child(void)
{
	work = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP; /* its owner is a thread of the parent */
}

static void fork_watch(void)
{
	pthread_atfork(fork_before, fork_parent, fork_child);
}

void object_work_enter(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, fork_watch);
	pthread_rwlock_rdlock(&work);
}

void object_work_leave(void)
{
	pthread_rwlock_unlock(&work);
}

/* ---- sessions */

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *session)
{
	struct object_session *s = session;
	if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
		return;
	char *text = LLVMGetDiagInfoDescription(info);
	size_t used = strlen(s->diagnostics);
	snprintf(s->diagnostics + used, sizeof s->diagnostics - used, "%s%s", used ? "; " : "", text);
	LLVMDisposeMessage(text);
	s->failed = true;
}

static void context_open(struct object_session *s)
{
	s->context = LLVMContextCreate();
	LLVMContextSetDiagnosticHandler(s->context, on_diagnostic, s);
}

struct object_session *object_session_new(void)
{
	struct object_session *s = calloc(1, sizeof *s);
	if (s)
		context_open(s);
	return s;
}

void object_session_free(struct object_session *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->nmachines; i++)
		shim_machine_free(s->machines[i].machine);
	LLVMContextDispose(s->context);
	free(s);
}

struct object_session *object_session_borrow(void)
{
	object_work_enter();
	pthread_mutex_lock(&idle.lock);
	struct object_session *s = idle.first;
	if (s) {
		idle.first = s->next_idle;
		idle.n--;
	}
	pthread_mutex_unlock(&idle.lock);
	if (!s)
		s = object_session_new();
	object_work_leave();
	return s;
}

void object_session_return(struct object_session *s)
{
	if (!s)
		return;
	object_work_enter();
	pthread_mutex_lock(&idle.lock);
	bool keep = idle.n < IDLE_SESSIONS && s->builds < SESSION_BUILDS;
	if (keep) {
		s->next_idle = idle.first;
		idle.first = s;
		idle.n++;
	}
	pthread_mutex_unlock(&idle.lock);
	if (!keep)
		object_session_free(s);
	object_work_leave();
}

LLVMContextRef object_context(struct object_session *s)
{
	return s->context;
}

static struct shim_machine *machine_of(struct object_session *s, const struct target *t, char *err, size_t errlen)
{
	for (int i = 0; i < s->nmachines; i++)
		if (!strcmp(s->machines[i].cpu, t->cpu))
			return s->machines[i].machine;
	if (s->nmachines == MACHINES) {
		snprintf(err, errlen, "more than %d targets in one session", MACHINES);
		return NULL;
	}
	struct shim_machine *m = shim_machine_new(t->triple, t->cpu, t->features ? t->features : "", err, errlen);
	if (m) {
		s->machines[s->nmachines].cpu = t->cpu;
		s->machines[s->nmachines++].machine = m;
	}
	return m;
}

/* Gives up what a fatal error left half-way: the context and every machine that knew it. */
static void session_renew(struct object_session *s)
{
	s->nmachines = 0;
	context_open(s);
}

static int emit(struct object_session *s, const struct target *t, LLVMModuleRef module, bool assembly, enum shim_order order, char **bytes, size_t *size,
                char *err, size_t errlen)
{
	bool broken = false;
	struct shim_machine *m = machine_of(s, t, err, errlen);
	if (!m) {
		LLVMDisposeModule(module);
		return -1;
	}
	s->diagnostics[0] = 0;
	s->failed = false;
	int rc = shim_emit(m, module, assembly, order, bytes, size, &broken, err, errlen);
	if (broken)
		session_renew(s);
	if (rc == 0 && s->failed) {
		snprintf(err, errlen, "LLVM: %s", s->diagnostics);
		free(*bytes);
		rc = -1;
	}
	if (rc == 0 && target_is_nvptx(t) && !(*bytes = object_shifts(*bytes, size))) {
		snprintf(err, errlen, "no memory for the assembly of a kernel");
		rc = -1;
	}
	return rc;
}

int object_build(struct object_session *s, const struct target *t, LLVMModuleRef module, enum shim_order order, void **elf, size_t *size, char *err, size_t errlen)
{
	s->builds++;
	char *object;
	size_t object_size;
	bool assembly = target_is_nvptx(t);
	if (emit(s, t, module, assembly, order, &object, &object_size, err, errlen))
		return -1;
	if (assembly)
		return object_assemble(t, object, object_size, elf, size, err, errlen);
	int rc = shim_link(object, object_size, elf, size, err, errlen);
	free(object);
	return rc;
}

int object_assembly(struct object_session *s, const struct target *t, LLVMModuleRef module, enum shim_order order, char **text, char *err, size_t errlen)
{
	size_t size;
	return emit(s, t, module, true, order, text, &size, err, errlen);
}
