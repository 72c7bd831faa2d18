# sources.mk -- what the front end is made of.  Lemon exits with the number of conflicts, so a conflict stops the build.
B ?= build
DSL_SRC = dsl/ast.c dsl/ast_dump.c dsl/diag.c dsl/dsl.c dsl/elab_access.c dsl/elab_call.c dsl/elab_expr.c dsl/elab_for.c dsl/elab_index.c \
	dsl/elab_stmt.c dsl/elaborate.c dsl/linear.c dsl/parse.c dsl/signature.c
DSL_GEN = $(B)/gen/lex.c $(B)/gen/grammar.c $(B)/gen/library.c
DSL_LIBRARY = lib/act.tdsl lib/norm.tdsl lib/quant.tdsl lib/softmax.tdsl

$(B)/gen/lex.c: dsl/lex.re
	@mkdir -p $(@D)
	re2c -W -Werror -i $< -o $@
$(B)/gen/grammar.c $(B)/gen/grammar.h &: dsl/grammar.y
	@mkdir -p $(@D)
	lemon -q -l -d$(B)/gen $<
$(B)/gen/library.c: dsl/library.sh $(DSL_LIBRARY)
	@mkdir -p $(@D)
	sh dsl/library.sh $(DSL_LIBRARY) > $@.part && mv $@.part $@
