/* ops/shape.c */
