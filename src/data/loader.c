/* Part of the data module; see data.h. */
