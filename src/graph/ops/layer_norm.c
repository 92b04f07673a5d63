/* ops/layer_norm.c */
