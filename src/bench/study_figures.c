/* What the study published, cell by cell, so that a report can put its own beside it. Nothing here was
 * measured with this program. */
#include "bench/study.h"

#include <math.h>

const char ls_study_title[] =
    "Multi-GPU Training Performance: When Hardware Topology Matters (June 2025) and its Comprehensive Study "
    "Results";
const char ls_study_hardware[] =
    "2 x NVIDIA GeForce RTX 4070 Ti SUPER, PCIe host bridge, peer access off, TensorFlow";

const ls_study_model_t ls_study_models[LS_STUDY_MODELS] = {
    {.preset = "mlp-medium",
     .label = "medium network, 258,432 parameters",
     .row = {{8, 1234, 45, 1012, 38, 0.82, 41, 2.8, 82, 68, NAN, NAN},
             {16, 2422, 67, 2039, 54, 0.84, 42, 3.2, 85, 70, NAN, NAN},
             {32, 4156, 89, 3567, 76, 0.86, 43, 3.8, 90, 75, NAN, NAN},
             {64, 8234, 145, 6789, 123, 0.82, 41, 4.6, 92, 78, NAN, NAN},
             {128, 16883, 234, 12345, 198, 0.73, 37, 6.2, 95, 82, NAN, NAN}},
     .timeline = {.batch = 64, .one = {3.2, 3.1, 0, 1.2, 0.3, 7.8}, .two = {1.8, 1.7, 5.2, 0.6, 0.1, 9.4}},
     .communication_low_ms = 58,
     .communication_high_ms = 85,
     .ratio_low = 1.5,
     .ratio_high = 2.0},
    {.preset = "mlp-large",
     .label = "large network, 6,885,376 parameters",
     .row = {{4, 234, 12, 189, 9, 0.81, 40, 3.8, NAN, NAN, 17.1, 21.2},
             {8, 431, 18, 336, 15, 0.78, 39, 4.2, NAN, NAN, 18.6, 23.8},
             {16, 789, 29, 678, 25, 0.86, 43, 5.8, NAN, NAN, 20.3, 23.6},
             {32, 1245, 41, 1123, 38, 0.90, 45, 7.4, NAN, NAN, 25.7, 28.5},
             {64, 2101, 67, 1841, 59, 0.88, 44, 9.8, NAN, NAN, 30.5, 34.8}},
     .timeline = {.batch = 32,
                  .one = {11.2, 10.8, 0, 3.1, 0.6, 25.7},
                  .two = {6.1, 5.9, 7.8, 1.6, 0.3, 28.5}},
     .communication_low_ms = 88,
     .communication_high_ms = 135,
     .ratio_low = 0.8,
     .ratio_high = 1.2}};
