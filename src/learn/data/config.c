/* The data section of a configuration: its rows. */
#include "data/parts.h"
#include "data/picture/picture.h"

static const char *const kinds[] = {"idx", "csv", "npy", "text", "images", "synthetic", NULL};

/* Names of ls_tokens_t and ls_windows_t, in their order. */
static const char *const tokens[] = {"auto", "characters", "bytes", "u16", "i32", NULL};
static const char *const windows[] = {"random", "strided", NULL};

/* Names of ls_missing_t, in its order. */
static const char *const missing[] = {"error", "mean", "indicator", NULL};

/* Names of ls_scale_t, ls_crop_t and ls_decode_t, in their order. */
static const char *const interpolations[] = {"bilinear", "bicubic", NULL};
static const char *const crops[] = {"centre", "random", NULL};
static const char *const decodes[] = {"auto", "once", "always", NULL};

/* Names of ls_mapped_choice_t, in its order. */
static const char *const mappings[] = {"auto", "true", "false", NULL};

/* Names of ls_dates_t, in its order. */
static const char *const dates[] = {"skip", "parts", NULL};

/* Names of ls_resident_t, in its order. */
static const char *const residents[] = {"auto", "true", "false", NULL};

static const ls_option_t rows[] = {
    LS_OPTION(ls_data_config_t, kind, .change = LS_CHANGE_IGNORED, .choices = kinds,
              .help = "Format of the data."),
    LS_OPTION_PATH(ls_data_config_t, features, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of the features, one sample per row, gzip allowed, or all files "
                           "that match, as in x-*.npy. FILE.npz:NAME "
                           "names an array of an archive."),
    LS_OPTION_PATH(ls_data_config_t, targets, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of the targets: class numbers, or values to predict."),
    LS_OPTION_PATH(
        ls_data_config_t, path, .change = LS_CHANGE_IGNORED, .optional = true,
        .help =
            "csv: file with a header line, gzip allowed. text: file, or all files that match, as in "
            "shards/*.bin, one after the other. images: folder with a folder of PNG and JPEG files for each "
            "class, or a CSV file of their paths and labels."),
    LS_OPTION(
        ls_data_config_t, target, .change = LS_CHANGE_MODEL, .optional = true,
        .help = "csv: names of the target columns. images: the column of the labels in a CSV file; default: "
                "label."),
    LS_OPTION(ls_data_config_t, columns, .change = LS_CHANGE_MODEL, .optional = true,
              .help = "csv: names of the feature columns. Default: all columns but the targets and "
                      "dates. images: the column of the paths in a CSV file; default: file."),
    LS_OPTION(ls_data_config_t, delimiter, .initial = "auto",
              .help = "csv: the character between cells, tab, or auto: the one of comma, semicolon and "
                      "tab that the header contains."),
    LS_OPTION(ls_data_config_t, validation, .change = LS_CHANGE_DATA, .min = 0, .max = 0.999, .initial = "0",
              .help = "Part of the samples held out for validation."),
    LS_OPTION(
        ls_data_config_t, split_seed, .change = LS_CHANGE_DATA, .min = -1, .max = 9e15, .initial = "-1",
        .help =
            "Seed of the choice of those samples; -1: train.seed. With a seed of its own, runs of several "
            "train.seed have one split."),
    LS_OPTION_PATH(ls_data_config_t, validation_features, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of held-out features, instead of a part of the samples."),
    LS_OPTION_PATH(ls_data_config_t, validation_targets, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of their targets."),
    LS_OPTION_PATH(ls_data_config_t, validation_path, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "csv, text, images: file or folder of held-out samples, instead of a part of the "
                           "samples. With csv it has "
                           "the same columns as path."),
    LS_OPTION(
        ls_data_config_t, tokens, .change = LS_CHANGE_MODEL, .choices = tokens, .initial = "auto",
        .help =
            "text: what a token is: characters of UTF-8 text, bytes, or the numbers in a token file (u16, "
            "i32, with or without llm.c's header). auto: numbers if the file has that header, u16 if its "
            "name ends in .bin, else characters."),
    LS_OPTION(ls_data_config_t, context, .change = LS_CHANGE_IGNORED, .unit = "tokens", .min = 0, .max = 1e9,
              .initial = "0", .help = "text: length of a sample; 0 follows the model's input."),
    LS_OPTION(
        ls_data_config_t, windows, .change = LS_CHANGE_RUN, .choices = windows, .initial = "random",
        .help =
            "text: where training samples begin: anywhere, by a random number of (seed, epoch, index), or "
            "every `stride` tokens, each once per epoch. Validation goes from window to window."),
    LS_OPTION(
        ls_data_config_t, stride, .change = LS_CHANGE_RUN, .min = 0, .max = 1e9, .initial = "0",
        .help = "text: tokens between strided training windows; 0 is the context. csv: rows between windows; "
                "0 is 1."),
    LS_OPTION(
        ls_data_config_t, masked, .change = LS_CHANGE_RUN, .max = 0.99, .initial = "0",
        .help =
            "text: share of a sample's tokens that the network is to find again, such as 0.15; 80 % of them "
            "are "
            "replaced by mask_token, 10 % by any token, chosen by (seed, epoch, index). 0: the target of a "
            "place is the next token."),
    LS_OPTION(ls_data_config_t, mask_token, .change = LS_CHANGE_RUN, .min = 0, .max = 1 << 24, .initial = "0",
              .help = "text: the token that stands for masked ones."),
    LS_OPTION(
        ls_data_config_t, window, .change = LS_CHANGE_MODEL, .unit = "rows", .min = 0, .max = 1e6,
        .initial = "0",
        .help =
            "csv: rows of a sample, [window, features], in the order of the file. 0: every row is a sample."),
    LS_OPTION(
        ls_data_config_t, horizon, .change = LS_CHANGE_MODEL, .unit = "rows", .min = 0, .max = 1e6,
        .initial = "1",
        .help =
            "csv: rows from the last one of a window to that of its target. Above 0 the target columns are "
            "features as well."),
    LS_OPTION(ls_data_config_t, missing, .change = LS_CHANGE_MODEL, .choices = missing, .initial = "error",
              .help = "csv: features without a value (an empty cell, ?, or what pandas reads so, such as NA, "
                      "NaN, null, None or "
                      "#N/A). error: refused. mean: the mean of the column's values in the training part. "
                      "indicator: the same, and "
                      "behind the columns one more for each that has gaps in the training file, 1 where the "
                      "value is missing, else "
                      "0."),
    LS_OPTION(ls_data_config_t, mapped, .change = LS_CHANGE_IGNORED, .choices = mappings, .initial = "auto",
              .help = "npy: features stay in their files, which are mapped and may be larger than memory. "
                      "auto: if they "
                      "take more than a quarter of it, and are not to be normalised."),
    LS_OPTION(
        ls_data_config_t, dates, .change = LS_CHANGE_MODEL, .choices = dates, .initial = "skip",
        .help =
            "csv: columns of dates (YYYY-MM-DD, with or without a time) that columns does not name. skip: "
            "left "
            "out. parts: features NAME.year, .month, .day, .weekday (Monday is 0), and .hour if there is a "
            "time. columns can name these, .yearday and .minute, too."),
    LS_OPTION(
        ls_data_config_t, normalize, .change = LS_CHANGE_KEPT, .initial = "false",
        .help =
            "Shift and scale to mean 0 and deviation 1, measured on the training part (real targets too)."),
    LS_OPTION(
        ls_data_config_t, resize, .change = LS_CHANGE_MODEL, .unit = "pixels", .min = 0, .max = 32767,
        .initial = "0",
        .help =
            "images, idx, npy: the shorter side is scaled to this, then the centre is cut out. 0: the whole "
            "picture is scaled to the model's height and width."),
    LS_OPTION(ls_data_config_t, interpolation, .change = LS_CHANGE_MODEL, .choices = interpolations,
              .initial = "bilinear",
              .help = "images, idx, npy: how they are scaled, as Pillow does it, bit for bit."),
    LS_OPTION(
        ls_data_config_t, crop, .change = LS_CHANGE_RUN, .choices = crops, .initial = "centre",
        .help = "images, idx, npy: training samples are cut out like those of validation, or are random "
                "parts of the "
                "picture (a part of the area, ratio 3/4 to 4/3), scaled, by a random number of (seed, epoch, "
                "index)."),
    LS_OPTION(ls_data_config_t, crop_area, .change = LS_CHANGE_RUN, .min = 0.01, .max = 1, .initial = "0.08",
              .help = "images, idx, npy: the least part of the picture that a random crop covers."),
    LS_OPTION(
        ls_data_config_t, padding, .change = LS_CHANGE_RUN, .unit = "pixels", .min = 0, .max = 1024,
        .initial = "0",
        .help =
            "images, idx, npy: training images get so many pixels of 0 around them, then their size is cut "
            "out at a random place."),
    LS_OPTION(
        ls_data_config_t, flip, .change = LS_CHANGE_RUN, .initial = "false",
        .help = "images, idx, npy: every second training image, chosen at random, is turned left to right."),
    LS_OPTION(ls_data_config_t, mean, .change = LS_CHANGE_KEPT, .optional = true, .min = -10, .max = 10,
              .help = "images, idx, npy: subtracted from each channel, as a part of 255 (for weights of "
                      "ImageNet 0.485, 0.456, "
                      "0.406). Default 0. Or data.normalize: true measures it on the training part."),
    LS_OPTION(ls_data_config_t, std, .change = LS_CHANGE_KEPT, .optional = true, .min = 1e-6, .max = 1e6,
              .help = "images, idx, npy: each channel is divided by this, as a part of 255 (0.229, 0.224, "
                      "0.225). Default 1."),
    LS_OPTION(ls_data_config_t, decode, .change = LS_CHANGE_IGNORED, .choices = decodes, .initial = "auto",
              .help =
                  "images, idx, npy: pictures are decoded once, when the run begins, or always, for each "
                  "batch. auto: once, unless "
                  "training samples are random parts or all samples take more than an eighth of the memory."),
    LS_OPTION(ls_data_config_t, resident, .change = LS_CHANGE_IGNORED, .choices = residents,
              .initial = "auto",
              .help = "Whether all samples stay on the device: true, false, or auto (on a GPU, if they "
                      "take at most a quarter of its free memory)."),
    LS_OPTION(ls_data_config_t, samples, .change = LS_CHANGE_DATA, .unit = "samples", .min = 1, .max = 1e9,
              .initial = "10000", .help = "synthetic: number of samples."),
    LS_OPTION(ls_data_config_t, inputs, .change = LS_CHANGE_DATA, .min = 0, .max = 1e7, .initial = "0",
              .help = "synthetic: features per sample; 0 follows the model."),
    LS_OPTION(ls_data_config_t, outputs, .change = LS_CHANGE_DATA, .min = 0, .max = 1e6, .initial = "0",
              .help = "synthetic: targets per sample, or classes; 0 follows the model."),
    LS_OPTION(ls_data_config_t, noise, .change = LS_CHANGE_DATA, .min = 0, .max = 1e6, .initial = "0.1",
              .help = "synthetic: standard deviation of the noise added to the teacher's outputs."),
    LS_OPTION(ls_data_config_t, data_seed, .change = LS_CHANGE_DATA, .min = 0, .max = 9e15, .initial = "42",
              .help = "synthetic: seed of features, teacher and noise."),
};

const ls_section_t ls_data_section = {.name = "data",
                                      .rows = rows,
                                      .count = LS_COUNT(rows),
                                      .help = "Where samples come from and how they are split."};
