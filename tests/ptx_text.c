/* ptx_text.c -- the text of a kernel in PTX to the instructions of ptx_code.h.
 * In: what the compiler writes, and what it hands through as text.  Out: instructions in their order, branches with their targets; names
 * of registers and of parameters are numbers.  What is not known is refused with the statement. */
#include "ptx_code.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_ALIGN = 16 };                      /* of shared memory that does not say so, or says less */
#define NAME(w) #w,
static const char *const opcodes[] = {OPCODES(NAME) NULL}, *const modifiers[] = {MODIFIERS(NAME) NULL};

bool ptx_refuse(struct code *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!c->failed)
		vsnprintf(c->err, c->errlen, fmt, ap);
	va_end(ap);
	c->failed = true;
	return false;
}

static void note(struct code *c, struct named **list, int *n, int *cap, const char *name, uint64_t value)
{
	if (*n == *cap)
		*list = arena_grow(&c->arena, *list, *n, cap, sizeof **list);
	(*list)[(*n)++] = (struct named){name, value};
}

static const struct named *find(const struct named *list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return NULL;
}

static int register_of(struct code *c, const char *name)
{
	size_t digits = strcspn(name, "0123456789");
	char class[16];
	snprintf(class, sizeof class, "%.*s", (int)digits, name);
	const struct named *k = find(c->classes, c->nclasses, class);
	if (!k) {
		ptx_refuse(c, "register %s is not declared", name);
		return 0;
	}
	return (int)k->value + atoi(name + digits);
}

static const char *const specials[SPECIALS] = {"%tid.x", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%cluster_ctarank", "%envreg1", "%envreg2", "%globaltimer"};

static struct operand operand_of(struct code *c, char *word)
{
	struct operand o = {.where = AT_NUMBER, .reg = -1};
	if (*word == '!') {
		o.negated = true;
		word++;
	}
	if (strcmp(word, "_") == 0) {
		o.where = AT_SINK;
	} else if (*word == '[') {
		char *plus = strpbrk(word + 1, "+]"), *name = word + 1;
		o.where = AT_MEMORY;
		o.value = plus && *plus == '+' ? strtoull(plus + 1, NULL, 0) : 0;
		if (plus)
			*plus = 0;
		const struct named *s = find(c->symbols, c->nsymbols, name);
		if (s)
			o.value += s->value;
		else
			o.reg = register_of(c, name);
	} else if (*word == '%') {
		o.where = AT_REGISTER;
		for (int i = 0; i < SPECIALS; i++)
			o.reg = strcmp(word, specials[i]) ? o.reg : i;
		c->meets = c->meets || o.reg == ENVREG1;
		o.reg = o.reg < 0 ? register_of(c, word) : o.reg;
	} else if (word[0] == '0' && (word[1] == 'f' || word[1] == 'd')) {
		o.value = strtoull(word + 2, NULL, 16);
	} else if (word[0] == '-' || (word[0] >= '0' && word[0] <= '9')) {
		o.value = (uint64_t)strtoll(word, NULL, 0);
	} else {
		const struct named *s = find(c->symbols, c->nsymbols, word);
		if (!s)
			ptx_refuse(c, "unknown name %s", word);
		o.value = s ? s->value : 0;
	}
	return o;
}

static bool type_of(const char *s, struct type *t)
{
	static const struct { const char *name; struct type t; } special[] = {
		{"pred", {'P', 1, false}}, {"bf16", {'B', 16, false}}, {"bf16x2", {'B', 16, true}}, {"f16x2", {'f', 16, true}},
		{"e4m3x2", {'e', 8, true}}, {"e5m2x2", {'E', 8, true}}, {"e4m3", {'e', 8, false}}, {"e5m2", {'E', 8, false}},
		{"tf32", {'t', 32, false}},
	};
	for (unsigned i = 0; i < sizeof special / sizeof *special; i++)
		if (strcmp(s, special[i].name) == 0) {
			*t = special[i].t;
			return true;
		}
	if (!strchr("usbf", *s) || s[1] < '0' || s[1] > '9' || strspn(s + 1, "0123456789") != strlen(s + 1))
		return false;
	*t = (struct type){*s, (int16_t)atoi(s + 1), false};
	return true;
}

static int number_of(const char *const *list, const char *name)
{
	int n = 0;
	while (list[n] && strcmp(list[n], name))
		n++;
	return n;
}

/* What belongs to products of four warps is known by its whole name; its types are those of A and B, which are the same. */
static void read_quad(struct code *c, struct ins *i, const char *name)
{
	static const struct { const char *name; enum quad quad; } known[] = {
		{"wgmma.fence.sync.aligned", REGISTER_FENCE}, {"wgmma.commit_group.sync.aligned", LOT}, {"wgmma.wait_group.sync.aligned", WAIT_LOTS},
		{"fence.proxy.async.shared::cta", SHOW},
	};
	int columns, types = 0;
	for (unsigned n = 0; n < sizeof known / sizeof *known; n++)
		if (strcmp(name, known[n].name) == 0)
			i->quad = known[n].quad;
	if (sscanf(name, "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%n", &columns, &types) != 1 || !types || columns < 8 || columns > QUAD_COLUMNS || columns % 8)
		return;
	bool brain = strcmp(name + types, "bf16.bf16") == 0;
	if (!brain && strcmp(name + types, "f16.f16"))
		return;
	i->quad = PRODUCT;
	i->columns = (uint8_t)(columns / 8);
	i->type[i->ntypes++] = (struct type){brain ? 'B' : 'f', 16, false};
	c->quads = true;
}

/* D, then A's descriptor or words, B's descriptor, whether D counts, two signs, which of those that lie in shared memory lie across. */
static bool is_quad_form(const struct ins *i)
{
	int d = i->columns * 4, in_memory = d + 7, in_registers = d + WORDS_OF_A + 5;
	if (i->quad != PRODUCT)
		return i->nop == (i->quad == WAIT_LOTS) && (!i->nop || i->op[0].where == AT_NUMBER);
	if (i->ndest != d || (i->nop != in_memory && i->nop != in_registers))
		return false;
	int numbers = i->nop == in_memory ? 4 : 3;
	for (int n = 0; n < i->nop; n++)
		if (i->op[n].where != (n < i->nop - numbers ? AT_REGISTER : AT_NUMBER) || i->op[n].negated)
			return false;
	for (int n = i->nop - numbers; n < i->nop; n++)
		if (n < i->nop - numbers + 2 ? i->op[n].value != 1 : i->op[n].value > 1)
			return false;
	return true;
}

static void add_instruction(struct code *c, char *s)
{
	if (c->n == c->cap)
		c->ins = arena_grow(&c->arena, c->ins, c->n, &c->cap, sizeof *c->ins);
	struct ins *i = &c->ins[c->n++];
	struct operand op[OPERANDS];
	memset(op, 0, SHORT * sizeof *op);
	*i = (struct ins){.text = arena_printf(&c->arena, "%s", s), .guard = -1, .ndest = 1, .target = -1};
	if (*s == '@') {
		i->guard_not = s[1] == '!';
		char *end = s + strcspn(s, " \t");
		*end = 0;
		i->guard = register_of(c, s + 1 + i->guard_not);
		s = end + 1;
	}
	s += strspn(s, " \t");
	char *rest = s + strcspn(s, " \t"), *save;
	if (*rest)
		*rest++ = 0;
	rest += strspn(rest, " \t");
	char *opcode = arena_printf(&c->arena, "%s", s);
	char *p = strtok_r(opcode, ".", &save);
	i->opcode = (int16_t)number_of(opcodes, p ? p : "");
	if (is(i, wgmma) || is(i, fence))
		read_quad(c, i, s);
	while (i->opcode != OP_UNKNOWN && !i->quad && (p = strtok_r(NULL, ".", &save))) {
		if (i->ntypes < 4 && type_of(p, &i->type[i->ntypes]))
			i->ntypes++;
		else if (strcmp(p, "shared::cluster") == 0)
			i->modifiers |= BIT(shared) | BIT(mapped);
		else if (strcmp(p, "shared::cta") == 0)
			i->modifiers |= BIT(shared);
		else if (is(i, shf) && strcmp(p, "l") == 0)
			continue;                                            /* shf.r is not known */
		else if (strcmp(p, "mbarrier::complete_tx::bytes") == 0)
			i->modifiers |= BIT(complete_tx);
		else
			i->modifiers |= 1ull << number_of(modifiers, strncmp(p, "L2::", 4) ? p : p + 4);
	}
	if (i->opcode == OP_UNKNOWN || (is(i, wgmma) && !i->quad)) {
		ptx_refuse(c, "%s: not known", i->text);
		return;
	}
	if (is(i, bra)) {
		rest[strcspn(rest, " \t")] = 0;
		op[0].value = (uint64_t)(uintptr_t)arena_printf(&c->arena, "%s", rest);
		i->op = arena_copy(&c->arena, op, SHORT * sizeof *op);
		return;
	}
	bool first_vector = *rest == '{';
	int closed = 0;
	for (p = rest; *p;) {
		p += strspn(p, " \t,");
		if (*p == '{' || *p == '}') {
			closed = *p == '}' && !closed ? i->nop : closed;
			p++;
			continue;
		}
		size_t n = strcspn(p, ",{}");
		char *word = arena_string(&c->arena, p, n);
		while (n && (word[n - 1] == ' ' || word[n - 1] == '\t'))
			word[--n] = 0;
		if (n && i->nop == OPERANDS) {
			ptx_refuse(c, "%.40s: more than %d operands", i->text, OPERANDS);
			return;
		}
		if (n)
			op[i->nop++] = operand_of(c, word);
		p += strcspn(p, ",{}");
	}
	if (first_vector)
		i->ndest = (int16_t)closed;
	i->op = arena_copy(&c->arena, op, (size_t)(i->nop > SHORT ? i->nop : SHORT) * sizeof *op);
	if (i->quad && !is_quad_form(i))
		ptx_refuse(c, "%.*s: not in this form", (int)strcspn(i->text, " "), i->text);
}

/* Products of 32-bit registers that are shifted by several amounts: ptxas takes one amount for another (compiler/object_shifts.c). */
static bool check_shifts(struct code *c)
{
	int registers = c->nclasses ? (int)c->classes[c->nclasses - 1].value + (int)c->registers[c->nclasses - 1].value : SPECIALS;
	bool *product = arena_alloc(&c->arena, (size_t)registers);
	const struct ins *first = NULL;
	for (int n = 0; n < c->n; n++) {
		const struct ins *i = &c->ins[n];
		if (is(i, mul) && has(i, lo) && i->type[0].bits == 32 && i->op[1].where == AT_REGISTER && i->op[2].where == AT_REGISTER)
			product[i->op[0].reg] = true;
	}
	for (int n = 0; n < c->n; n++) {
		const struct ins *i = &c->ins[n];
		if (!is(i, shl) || i->op[1].where != AT_REGISTER || !product[i->op[1].reg] || i->op[2].where != AT_NUMBER)
			continue;
		first = first ? first : i;
		if (i->op[2].value != first->op[2].value)
			return ptx_refuse(c, "%s beside %s: ptxas shifts products by one amount for another", i->text, first->text);
	}
	return true;
}

static void add_parameter(struct code *c, const char *s)
{
	int size = strstr(s, "64 ") ? 8 : 4;
	const char *name = strrchr(s, ' ');
	c->arguments = (c->arguments + size - 1) / size * size;
	note(c, &c->symbols, &c->nsymbols, &c->cap_symbols, arena_printf(&c->arena, "%s", name + 1), (uint64_t)c->arguments);
	c->arguments += size;
}

/* ".shared .align 16 .b8 name[32]", ".extern .shared .align 16 .b8 name[]".  The latter lie behind the others, all of them at the same place. */
static void add_shared(struct code *c, const char *s)
{
	const char *bracket = strchr(s, '['), *name = bracket, *said = strstr(s, ".align ");
	int align = said ? atoi(said + 7) : 1;
	while (bracket && name[-1] != ' ')
		name--;
	if (!bracket) {
		ptx_refuse(c, "%s", s);
		return;
	}
	align = align < SHARED_ALIGN ? SHARED_ALIGN : align;
	c->shared = (c->shared + align - 1) / align * align;
	note(c, &c->symbols, &c->nsymbols, &c->cap_symbols, arena_string(&c->arena, name, (size_t)(bracket - name)), (uint64_t)c->shared);
	c->shared += atoi(bracket + 1);
	if (bracket[1] == ']') {
		c->nopen++;
		c->open_align = align > c->open_align ? align : c->open_align;
	}
}

/* Before the first instruction, when all is declared; what is of no size was so in front of everything else. */
static void place_shared(struct code *c)
{
	if (c->shared > DECLARED)
		ptx_refuse(c, "%d bytes of shared memory are declared; ptxas takes %d", c->shared, DECLARED);
	for (int i = 0; i < c->nopen; i++)
		c->symbols[i].value = (uint64_t)((c->shared + c->open_align - 1) / c->open_align * c->open_align);
}

/* ".reqnctapercluster 8, 1, 1": a chip of sm_90 has at most 16 workgroups in a cluster. */
static void add_cluster(struct code *c, const char *s)
{
	int x = 0, y = 1, z = 1;
	if (sscanf(s, ".reqnctapercluster %d , %d , %d", &x, &y, &z) < 1 || x < 1 || x > 16 || y != 1 || z != 1)
		ptx_refuse(c, "%s: not a cluster of 1 to 16 workgroups along x", s);
	c->cluster = x;
}

static void directive(struct code *c, const char *s)
{
	char class[16], type[16];
	int n;
	if (strncmp(s, ".param", 6) == 0) {
		add_parameter(c, s);
	} else if (strncmp(s, ".reqnctapercluster", 18) == 0) {
		add_cluster(c, s);
	} else if (strstr(s, ".shared ")) {
		add_shared(c, s);
	} else if (sscanf(s, ".reg .%15s %15[^<]<%d>", type, class, &n) == 3) {
		int used = c->nclasses ? (int)c->classes[c->nclasses - 1].value + (int)c->registers[c->nclasses - 1].value : SPECIALS;
		note(c, &c->classes, &c->nclasses, &c->cap_classes, arena_printf(&c->arena, "%s", class), (uint64_t)used);
		note(c, &c->registers, &c->nregisters, &c->cap_registers, "", (uint64_t)n);
	}
}

/* One statement, without its end. */
static void statement(struct code *c, char *s, bool inside)
{
	s += strspn(s, " \t\n");
	size_t n = strlen(s);
	while (n && strchr(" \t\n", s[n - 1]))
		s[--n] = 0;
	if (!n)
		return;
	if (*s == '.')
		directive(c, s);
	else if (s[n - 1] == ':')
		note(c, &c->labels, &c->nlabels, &c->cap_labels, arena_string(&c->arena, s, n - 1), (uint64_t)c->n);
	else if (inside) {
		if (!c->n)
			place_shared(c);
		add_instruction(c, s);
	}
}

bool ptx_read(struct code *c, const char *text, const char *kernel)
{
	char *entry = arena_printf(&c->arena, ".visible .entry %s(", kernel), *line = arena_printf(&c->arena, "%s", text), *save;
	bool inside = false, in_kernel = false;
	for (line = strtok_r(line, "\n", &save); line && !c->failed; line = strtok_r(NULL, "\n", &save)) {
		char *comment = strstr(line, "//"), *word = line + strspn(line, " \t"), *more;
		if (comment)
			*comment = 0;
		if (strncmp(word, entry, strlen(entry)) == 0) {
			in_kernel = true;
		} else if (!in_kernel) {
			if (strncmp(word, ".extern .shared", 15) == 0)
				statement(c, word, false);
		} else if (!*word) {
			continue;
		} else if (*word == '{' && !inside) {
			inside = true;
		} else if (*word == '}') {
			break;
		} else if (!inside || strncmp(word, ".loc", 4) == 0) {
			if (strncmp(word, ".reqnctapercluster", 18) == 0)
				statement(c, word, false);
			word[strcspn(word, ",")] = 0;
			if (strncmp(word, ".param", 6) == 0)
				statement(c, word, false);
		} else if (strchr(word, ':') && !strchr(word, ';')) {
			statement(c, word, true);
		} else {
			/* statements may stand side by side, or reach over lines: those end without ';' */
			while (!strchr(word, ';')) {
				char *next = strtok_r(NULL, "\n", &save);
				if (!next)
					return ptx_refuse(c, "a statement without an end: %s", word);
				word = arena_printf(&c->arena, "%s %s", word, next);
			}
			for (char *one = strtok_r(word, ";", &more); one; one = strtok_r(NULL, ";", &more))
				statement(c, one, true);
		}
	}
	if (!in_kernel)
		return ptx_refuse(c, "the text has no kernel %s", kernel);
	for (int i = 0; i < c->n && !c->failed; i++)
		if (is(&c->ins[i], bra)) {
			const struct named *l = find(c->labels, c->nlabels, (const char *)(uintptr_t)c->ins[i].op[0].value);
			if (!l)
				return ptx_refuse(c, "no label for %s", c->ins[i].text);
			c->ins[i].target = (int)l->value;
		}
	return !c->failed && check_shifts(c);
}
