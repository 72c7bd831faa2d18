# sources.mk -- what the front end is made of.  Lemon exits with the number of conflicts, so a conflict stops the build.
B ?= build
DSL_SRC = $(wildcard dsl/*.c)
DSL_GEN = $(B)/gen/dsl/lex.c $(B)/gen/dsl/grammar.c $(B)/gen/dsl/library.c
DSL_LIBRARY = $(sort $(wildcard lib/*.tdsl))

$(B)/gen/dsl/lex.c: dsl/lex.re
	@mkdir -p $(@D)
	re2c -W -Werror -i $< -o $@
$(B)/gen/dsl/grammar.c $(B)/gen/dsl/grammar.h &: dsl/grammar.y
	@mkdir -p $(@D)
	lemon -q -l -d$(@D) $<
$(B)/gen/dsl/library.c: dsl/library.sh $(DSL_LIBRARY)
	@mkdir -p $(@D)
	sh dsl/library.sh $(DSL_LIBRARY) >$@.part && mv $@.part $@
