/* binding.h -- which names the generated C interface cannot have. */
#ifndef TDSL_BINDING_H
#define TDSL_BINDING_H

/* What a C function of this name would get in the way of: "a keyword of C or C++"; NULL = nothing. */
const char *binding_name_taken(const char *kernel);
#endif
