/* ops/linear.c */
