/* Programs that are not fuzzed link the instrumented modules as well: what gcc's coverage calls does nothing
 * here. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {}
