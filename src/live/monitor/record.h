/* A record: the measurements of one rank at one moment, as one table. Each row is a member of the event log, a column of the
 * CSV file, a metric of Prometheus, a curve of TensorBoard, and a name in the conditions of alerts. */
#ifndef LS_MONITOR_RECORD_H
#define LS_MONITOR_RECORD_H

#include "base/field.h"

/* The ranks that report a value. The other ranks have the same value, and are silent. */
typedef enum {
  LS_OF_RUN,  /* rank 0 */
  LS_OF_HOST, /* the first rank of a host */
  LS_OF_ALL,  /* every rank: it shows that it lives; of alerts rank 0 */
  LS_OF_RANK  /* every rank, its own */
} ls_monitor_of_t;

typedef enum { LS_METRIC_NONE, LS_METRIC_GAUGE, LS_METRIC_COUNTER } ls_metric_kind_t;

/* X(of, field, kind, metric, label, scale, tag, help)
 * metric x scale is the value in base units; rows of one metric stand together and differ in their label.
 * tag: TensorBoard's name of the curve; NULL: none. */
#define LS_MONITOR_TABLE(X)                                                                                  \
  X(ALL, step, COUNTER, "lockstep_train_step_total", NULL, 1, NULL, "Steps done, earlier runs included.")    \
  X(RUN, total_steps, GAUGE, "lockstep_train_planned_steps", NULL, 1, NULL, "Steps of the whole run.")       \
  X(RUN, loss, GAUGE, "lockstep_train_loss", NULL, 1, "train/loss_of_step", "Loss of the newest step.")      \
  X(RUN, loss_mean, NONE, NULL, NULL, 1, "train/loss", "Mean loss of the steps since the last record.")      \
  X(RUN, grad_norm, GAUGE, "lockstep_train_gradient_norm", NULL, 1, "train/gradient_norm",                   \
    "Gradient norm of the newest step, before clipping.")                                                    \
  X(RUN, lr, GAUGE, "lockstep_train_learning_rate", NULL, 1, "train/learning_rate",                          \
    "Learning rate of the newest step.")                                                                     \
  X(RUN, val_loss, GAUGE, "lockstep_validation_loss", NULL, 1, "validation/loss", "Newest validation loss.") \
  X(RUN, val_accuracy, GAUGE, "lockstep_validation_accuracy_ratio", NULL, 1, "validation/accuracy",          \
    "Newest validation accuracy, from 0 to 1.")                                                              \
  X(RUN, val_step, GAUGE, "lockstep_validation_step", NULL, 1, NULL, "Steps done before that evaluation.")   \
  X(RUN, val_perplexity, GAUGE, "lockstep_validation_perplexity", NULL, 1, "validation/perplexity",          \
    "Its perplexity.")                                                                                       \
  X(RUN, val_top5, GAUGE, "lockstep_validation_top5_ratio", NULL, 1, "validation/top5",                      \
    "Its top5, from 0 to 1, if train.metrics names it.")                                                     \
  X(RUN, val_f1, GAUGE, "lockstep_validation_f1_ratio", NULL, 1, "validation/f1",                            \
    "Its f1, if train.metrics names it.")                                                                    \
  X(RUN, val_r2, GAUGE, "lockstep_validation_r2_ratio", NULL, 1, "validation/r2",                            \
    "Its r2, if train.metrics names it.")                                                                    \
  X(RUN, val_mae, GAUGE, "lockstep_validation_absolute_error", NULL, 1, "validation/mae",                    \
    "Its mae, if train.metrics names it.")                                                                   \
  X(RUN, nonfinite, NONE, NULL, NULL, 1, NULL, "1 if the newest loss or gradient norm is not finite.")       \
  X(RUN, loss_scale, GAUGE, "lockstep_train_fp16_loss_scale", NULL, 1, "train/loss_scale",                   \
    "With precision fp16: by what the newest step's loss was multiplied.")                                   \
  X(RUN, skipped_steps, COUNTER, "lockstep_train_skipped_steps_total", NULL, 1, NULL,                        \
    "Steps that were skipped because they were not finite.")                                                 \
  X(RUN, samples, COUNTER, "lockstep_train_samples_total", NULL, 1, NULL,                                    \
    "Samples trained by this process.")                                                                      \
  X(RUN, samples_per_s, NONE, NULL, NULL, 1, "speed/samples_per_s", "Samples per second of step time.")      \
  X(ALL, step_time_us, GAUGE, "lockstep_train_step_duration_seconds", NULL, 1e-6, "speed/step_time_us",      \
    "Mean time of the steps since the last record.")                                                         \
  X(RUN, step_time_ratio, GAUGE, "lockstep_train_step_duration_relative_ratio", NULL, 1, NULL,               \
    "step_time_us divided by its usual value: the median of the last 60 records.")                           \
  X(RUN, straggler_ratio, GAUGE, "lockstep_train_straggler_ratio", NULL, 1, "speed/straggler_ratio",         \
    "Own time of a step of the slowest rank, divided by the median rank's; own: without waiting for "        \
    "others. Medians of 20 steps.")                                                                          \
  X(RUN, straggler_rank, GAUGE, "lockstep_train_straggler_rank", NULL, 1, NULL, "That slowest rank.")        \
  X(RUN, straggler, GAUGE, "lockstep_train_straggler", NULL, 1, NULL,                                        \
    "1 if it holds the others up: slower by 5 % and beyond the noise.")                                      \
  X(RUN, straggler_cause, GAUGE, "lockstep_train_straggler_cause", NULL, 1, NULL,                            \
    "Why it does: 0 input, 1 heat, 2 clock, 3 other load, 4 own work, 5 slower processor.")                  \
  X(RUN, idle_s, GAUGE, "lockstep_train_idle_seconds", NULL, 1, NULL,                                        \
    "Time since a step, evaluation or save ended.")                                                          \
  X(RANK, input_us, NONE, NULL, NULL, 1, "step/input_us", "Mean of the part of a step: input.")              \
  X(RANK, forward_us, NONE, NULL, NULL, 1, "step/forward_us", "The same: forward.")                          \
  X(RANK, backward_us, NONE, NULL, NULL, 1, "step/backward_us", "The same: backward.")                       \
  X(RANK, exposed_comm_us, NONE, NULL, NULL, 1, "step/exposed_comm_us",                                      \
    "The same: exposed communication, in which computation waited.")                                         \
  X(RANK, optimizer_us, NONE, NULL, NULL, 1, "step/optimizer_us", "The same: optimizer.")                    \
  X(RANK, rest_us, NONE, NULL, NULL, 1, "step/rest_us", "The same: the rest.")                               \
  X(RANK, input_s, COUNTER, "lockstep_train_phase_seconds_total", "phase=\"input\"", 1, NULL,                \
    "Time in the parts of steps.")                                                                           \
  X(RANK, forward_s, COUNTER, "lockstep_train_phase_seconds_total", "phase=\"forward\"", 1, NULL,            \
    "The same: forward.")                                                                                    \
  X(RANK, backward_s, COUNTER, "lockstep_train_phase_seconds_total", "phase=\"backward\"", 1, NULL,          \
    "The same: backward.")                                                                                   \
  X(RANK, exposed_comm_s, COUNTER, "lockstep_train_phase_seconds_total", "phase=\"exposed_communication\"",  \
    1, NULL, "The same: exposed communication.")                                                             \
  X(RANK, optimizer_s, COUNTER, "lockstep_train_phase_seconds_total", "phase=\"optimizer\"", 1, NULL,        \
    "The same: optimizer.")                                                                                  \
  X(RANK, rest_s, COUNTER, "lockstep_train_phase_seconds_total", "phase=\"rest\"", 1, NULL,                  \
    "The same: the rest.")                                                                                   \
  X(ALL, exchanged_bytes, COUNTER, "lockstep_train_exchanged_bytes_total", NULL, 1, NULL,                    \
    "Bytes that this rank gave to collectives.")                                                             \
  X(RUN, step_s, COUNTER, "lockstep_train_step_seconds_total", NULL, 1, NULL, "Time in steps.")              \
  X(RUN, evaluation_s, COUNTER, "lockstep_train_evaluation_seconds_total", NULL, 1, NULL,                    \
    "Time in evaluations.")                                                                                  \
  X(RUN, save_s, COUNTER, "lockstep_checkpoint_seconds_total", NULL, 1, NULL, "Time in saving.")             \
  X(RUN, running_s, COUNTER, "lockstep_run_seconds_total", NULL, 1, NULL, "Time since the process began.")   \
  X(RUN, resumed_s, GAUGE, "lockstep_run_resumed_seconds", NULL, 1, NULL,                                    \
    "Time since this process went on with an earlier one's run; missing if it began the run.")               \
  X(RANK, cpu_ratio, GAUGE, "lockstep_process_cpu_usage_ratio", NULL, 1, "host/cpu",                         \
    "Processors that the process keeps busy; 2.0 is two whole processors.")                                  \
  X(RANK, cpu_waiting_ratio, GAUGE, "lockstep_process_cpu_waiting_ratio", NULL, 1, NULL,                     \
    "Share of time in which the rank's main thread was ready to run and had no processor.")                  \
  X(RANK, cpu_clock_ratio, GAUGE, "lockstep_cpu_clock_relative_ratio", NULL, 1, NULL,                        \
    "Clock of the rank's processors, divided by their highest.")                                             \
  X(RANK, cpu_heat_limited, GAUGE, "lockstep_cpu_clock_limited", "reason=\"heat\"", 1, NULL,                 \
    "1 if heat has limited the clock of the rank's processors since the last record.")                       \
  X(HOST, others_ratio, GAUGE, "lockstep_host_cpu_others_ratio", NULL, 1, "host/cpu_others",                 \
    "Share of the processors' time that other programs take, other ranks included.")                         \
  X(RANK, memory_bytes, GAUGE, "lockstep_process_resident_memory_bytes", NULL, 1, "host/memory_bytes",       \
    "Resident memory of the process.")                                                                       \
  X(HOST, memory_ratio, GAUGE, "lockstep_host_memory_used_ratio", NULL, 1, NULL,                             \
    "Share of the host's memory that is not available.")                                                     \
  X(HOST, disk_ratio, GAUGE, "lockstep_disk_used_ratio", NULL, 1, NULL,                                      \
    "Share of the file system below monitor.dir that is used.")                                              \
  X(RANK, gpu_ratio, GAUGE, "lockstep_gpu_utilization_ratio", NULL, 1, "gpu/utilization",                    \
    "Share of time in which kernels ran.")                                                                   \
  X(RANK, gpu_memory_bytes, GAUGE, "lockstep_gpu_memory_used_bytes", NULL, 1, "gpu/memory_bytes",            \
    "Memory in use on the GPU, whoever uses it.")                                                            \
  X(RANK, gpu_memory_size_bytes, GAUGE, "lockstep_gpu_memory_size_bytes", NULL, 1, NULL,                     \
    "Memory of the GPU.")                                                                                    \
  X(RANK, gpu_memory_ratio, GAUGE, "lockstep_gpu_memory_used_ratio", NULL, 1, NULL,                          \
    "Share of the GPU's memory that is in use.")                                                             \
  X(RANK, gpu_temperature_c, GAUGE, "lockstep_gpu_temperature_celsius", "sensor=\"gpu\"", 1,                 \
    "gpu/temperature_c", "Temperature of the GPU.")                                                          \
  X(RANK, gpu_memory_temperature_c, GAUGE, "lockstep_gpu_temperature_celsius", "sensor=\"memory\"", 1, NULL, \
    "The same: of its memory.")                                                                              \
  X(RANK, gpu_margin_c, GAUGE, "lockstep_gpu_temperature_margin_celsius", NULL, 1, "gpu/margin_c",           \
    "Degrees until heat slows the GPU's clocks down.")                                                       \
  X(RANK, gpu_power_w, GAUGE, "lockstep_gpu_power_watts", NULL, 1, "gpu/power_w", "Power of the GPU.")       \
  X(RANK, gpu_power_limit_w, GAUGE, "lockstep_gpu_power_limit_watts", NULL, 1, NULL,                         \
    "Its limit, which is enforced.")                                                                         \
  X(RANK, gpu_power_ratio, GAUGE, "lockstep_gpu_power_used_ratio", NULL, 1, NULL,                            \
    "Power divided by its limit.")                                                                           \
  X(RANK, gpu_energy_j, COUNTER, "lockstep_gpu_energy_joules_total", NULL, 1, NULL,                          \
    "Energy that the GPU has taken, by the driver's counter.")                                               \
  X(RANK, gpu_clock_mhz, GAUGE, "lockstep_gpu_clock_hertz", "domain=\"sm\"", 1e6, "gpu/clock_mhz",           \
    "Clock of the GPU's multiprocessors.")                                                                   \
  X(RANK, gpu_memory_clock_mhz, GAUGE, "lockstep_gpu_clock_hertz", "domain=\"memory\"", 1e6, NULL,           \
    "The same: of its memory.")                                                                              \
  X(RANK, gpu_clock_most_mhz, GAUGE, "lockstep_gpu_clock_max_hertz", "domain=\"sm\"", 1e6, NULL,             \
    "Highest clock of the GPU's multiprocessors.")                                                           \
  X(RANK, gpu_power_limited, GAUGE, "lockstep_gpu_clock_limited", "reason=\"power\"", 1, NULL,               \
    "1 if clocks are limited: by the power limit.")                                                          \
  X(RANK, gpu_heat_limited, GAUGE, "lockstep_gpu_clock_limited", "reason=\"heat\"", 1, NULL,                 \
    "1 if clocks are limited: by heat.")                                                                     \
  X(RANK, gpu_brake_limited, GAUGE, "lockstep_gpu_clock_limited", "reason=\"brake\"", 1, NULL,               \
    "1 if clocks are limited: by a hardware or power brake.")                                                \
  X(RANK, gpu_ecc_corrected, COUNTER, "lockstep_gpu_ecc_errors_total", "type=\"corrected\"", 1, NULL,        \
    "Errors of the GPU's memory, by the driver's counter.")                                                  \
  X(RANK, gpu_ecc_uncorrected, COUNTER, "lockstep_gpu_ecc_errors_total", "type=\"uncorrected\"", 1, NULL,    \
    "The same: uncorrected.")                                                                                \
  X(RANK, gpu_ecc_new, NONE, NULL, NULL, 1, NULL, "Uncorrected errors of its memory since the last record.") \
  X(RANK, gpu_nvlink_sent_bytes, COUNTER, "lockstep_gpu_nvlink_bytes_total", "direction=\"sent\"", 1, NULL,  \
    "Bytes over all of the GPU's NVLinks.")                                                                  \
  X(RANK, gpu_nvlink_received_bytes, COUNTER, "lockstep_gpu_nvlink_bytes_total", "direction=\"received\"",   \
    1, NULL, "The same: received.")                                                                          \
  X(RANK, gpu_pcie_sent_bytes, COUNTER, "lockstep_gpu_pcie_bytes_total", "direction=\"sent\"", 1, NULL,      \
    "Bytes over the GPU's PCIe link.")                                                                       \
  X(RANK, gpu_pcie_received_bytes, COUNTER, "lockstep_gpu_pcie_bytes_total", "direction=\"received\"", 1,    \
    NULL, "The same: received.")                                                                             \
  X(RANK, gpu_pcie_replays, COUNTER, "lockstep_gpu_pcie_replays_total", NULL, 1, NULL,                       \
    "Packets that the PCIe link had to send again.")                                                         \
  X(RANK, gpu_xid, NONE, NULL, NULL, 1, NULL, "Number of the newest XID, an error of the GPU's driver.")     \
  X(RANK, gpu_xid_errors, COUNTER, "lockstep_gpu_xid_errors_total", NULL, 1, NULL,                           \
    "XIDs since this process began.")                                                                        \
  X(RANK, gpu_recovery_action, GAUGE, "lockstep_gpu_recovery_action", NULL, 1, NULL,                         \
    "What the driver asks for: 0 nothing, 1 a reset of the GPU, 2 a reboot, 3 and 4 a drain.")

/* Unknown values are NaN. */
typedef struct {
  double t; /* seconds since 1970 */
  int rank;
#define LS_MONITOR_FIELD(of, field, kind, metric, label, scale, tag, help) double field;
  LS_MONITOR_TABLE(LS_MONITOR_FIELD)
#undef LS_MONITOR_FIELD
} ls_monitor_sample_t;

typedef struct {
  const char *name;
  size_t offset;
  ls_monitor_of_t of;
  ls_metric_kind_t kind;
  const char *metric, *label; /* metric NULL: none of Prometheus */
  double scale;
  const char *tag, *help;
} ls_metric_t;

#define LS_MONITOR_ONE(of, field, kind, metric, label, scale, tag, help) +1
enum { LS_METRIC_COUNT = 0 LS_MONITOR_TABLE(LS_MONITOR_ONE) };
#undef LS_MONITOR_ONE

extern const ls_metric_t ls_metrics[LS_METRIC_COUNT];
static inline double ls_metric_value(const ls_metric_t *m, const ls_monitor_sample_t *s) {
  return *(const double *)(const void *)((const char *)s + m->offset);
}
/* The value as a text for people: a number, or what it stands for ("other load"). Returns text. */
enum { LS_METRIC_TEXT_BYTES = 32 };
const char *ls_metric_text(const ls_metric_t *m, const ls_monitor_sample_t *s,
                           char text[LS_METRIC_TEXT_BYTES]);
/* NULL: no row has this name. */
const ls_metric_t *ls_metric_find(const char *name, size_t len);

/* The members of a record in the event log; those that are not known are absent. */
extern const ls_record_t ls_monitor_sample_record;
/* Puts them into `object`: whole numbers as such, others with eight digits. False: memory is short. */
bool ls_monitor_sample_put(json_t *object, const ls_monitor_sample_t *sample);

#endif
