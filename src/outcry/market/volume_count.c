/* The compiled form of volume_count.py, which states the rules; tests hold the two equal (decision record 0062).
 *
 * A block of trades is checked first, in loops that the compiler vectorizes, and then counted without any check.
 * Neighbouring trades go into different tables, because an addition to a row waits for the one before it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 512
#define TABLES 4

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define VECTORIZED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORIZED
#endif

/* A column of integers; `step` bytes from one to the next. They need not be aligned: a row of a file is not. */
typedef struct {
    Py_buffer buffer;
    const char *data;
    Py_ssize_t step, width;
} Column;

static inline int64_t load(const Column *column, Py_ssize_t index)
{
    const char *place = column->data + index * column->step;
    if (column->width == 8) {
        int64_t value;
        memcpy(&value, place, 8);
        return value;
    }
    uint32_t value;
    memcpy(&value, place, 4);
    return value;
}

/* Return `count` integers of a column in one piece: where they are, if they are so already, else copied into `block`. */
static const int64_t *in_one_piece(const Column *column, Py_ssize_t first, Py_ssize_t count, int64_t *block)
{
    const char *place = column->data + first * column->step;
    if (column->width == 8 && column->step == 8 && (uintptr_t)place % 8 == 0)
        return (const int64_t *)place;
    if (column->width == 4 && column->step == 4) {
        for (Py_ssize_t i = 0; i < count; i++) {
            uint32_t value;
            memcpy(&value, place + 4 * i, 4);
            block[i] = value;
        }
    } else {
        for (Py_ssize_t i = 0; i < count; i++)
            block[i] = load(column, first + i);
    }
    return block;
}

/* The row of a price. For a price outside the tables it is at least `rows`, because the subtraction wraps around. */
static inline uint64_t row_of(int64_t price, int64_t base)
{
    return (uint64_t)price - (uint64_t)base;
}

/* Return whether every trade of a block can be counted: in order of time, with a size, at a price of the tables. */
VECTORIZED static int is_countable(int64_t before, const int64_t *at, const int64_t *price, const int64_t *size,
                                   Py_ssize_t count, int64_t base, int64_t rows)
{
    uint64_t outside = 0;
    int64_t fault = at[0] < before;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t row = row_of(price[i], base);
        outside |= row | ((uint64_t)rows - 1 - row); /* either has the highest bit, unless row < rows */
    }
    for (Py_ssize_t i = 0; i < count; i++)
        fault |= size[i] <= 0;
    for (Py_ssize_t i = 1; i < count; i++)
        fault |= at[i] < at[i - 1];
    return !fault && !(outside >> 63);
}

static Py_ssize_t count_columns(const Column *at_ns, const Column *price_ticks, const Column *size_lots, Py_ssize_t first,
                                Py_ssize_t until, int64_t base, int64_t *tables, Py_ssize_t rows)
{
    int64_t times[BLOCK], prices[BLOCK], sizes[BLOCK];
    int64_t before = first ? load(at_ns, first - 1) : INT64_MIN;
    while (first < until) {
        Py_ssize_t count = until - first < BLOCK ? until - first : BLOCK, i = 0;
        const int64_t *at = in_one_piece(at_ns, first, count, times);
        const int64_t *price = in_one_piece(price_ticks, first, count, prices);
        const int64_t *size = in_one_piece(size_lots, first, count, sizes);
        if (!is_countable(before, at, price, size, count, base, rows)) {
            for (; at[i] >= before && size[i] > 0 && row_of(price[i], base) < (uint64_t)rows; before = at[i++])
                tables[row_of(price[i], base)] += size[i];
            return first + i;
        }
        for (; i + TABLES <= count; i += TABLES) {
            tables[row_of(price[i], base)] += size[i];
            tables[row_of(price[i + 1], base) + (uint64_t)rows] += size[i + 1];
            tables[row_of(price[i + 2], base) + 2 * (uint64_t)rows] += size[i + 2];
            tables[row_of(price[i + 3], base) + 3 * (uint64_t)rows] += size[i + 3];
        }
        for (; i < count; i++)
            tables[row_of(price[i], base)] += size[i];
        before = at[count - 1];
        first += count;
    }
    return until;
}

/* Open a one-dimensional column of int64, or of uint32 if `or_uint32`. The caller releases its buffer. */
static int open_column(PyObject *array, const char *name, int or_uint32, Column *column)
{
    if (PyObject_GetBuffer(array, &column->buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0)
        return -1;
    const char *format = column->buffer.format;
    char kind = strchr("<>!", *format) ? '?' : format[strlen(format) - 1]; /* native byte order only */
    column->width = column->buffer.itemsize;
    int is_int64 = column->width == 8 && (kind == 'l' || kind == 'q');
    int is_uint32 = column->width == 4 && (kind == 'I' || kind == 'L');
    if (column->buffer.ndim != 1 || !(is_int64 || (or_uint32 && is_uint32))) {
        PyErr_Format(PyExc_TypeError, "%s must be a column of int64%s", name, or_uint32 ? " or uint32" : "");
        PyBuffer_Release(&column->buffer);
        return -1;
    }
    column->data = column->buffer.buf;
    column->step = column->buffer.strides[0];
    return 0;
}

static PyObject *count_opened(Column *columns, PyObject *array, Py_ssize_t first, Py_ssize_t until, long long base)
{
    Py_buffer tables;
    if (PyObject_GetBuffer(array, &tables, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0)
        return NULL;
    PyObject *result = NULL;
    int fits = first >= 0 && first <= until;
    for (int i = 0; i < 3; i++)
        fits = fits && until <= columns[i].buffer.shape[0];
    if (!fits) {
        PyErr_SetString(PyExc_IndexError, "the trades are not within their columns");
    } else if (tables.ndim != 2 || tables.shape[0] != TABLES || tables.itemsize != 8) {
        PyErr_SetString(PyExc_TypeError, "tables must be four rows of int64");
    } else {
        Py_ssize_t counted;
        Py_BEGIN_ALLOW_THREADS
        counted = count_columns(&columns[0], &columns[1], &columns[2], first, until, base, tables.buf, tables.shape[1]);
        Py_END_ALLOW_THREADS
        result = PyLong_FromSsize_t(counted);
    }
    PyBuffer_Release(&tables);
    return result;
}

static PyObject *count_volume(PyObject *module, PyObject *args)
{
    (void)module;
    static const char *const names[] = {"at_ns", "price_ticks", "size_lots"};
    PyObject *arrays[3], *tables, *result = NULL;
    Py_ssize_t first, until;
    long long base;
    Column columns[3];
    int opened = 0;
    if (!PyArg_ParseTuple(args, "OOOnnLO", &arrays[0], &arrays[1], &arrays[2], &first, &until, &base, &tables))
        return NULL;
    while (opened < 3 && open_column(arrays[opened], names[opened], opened == 2, &columns[opened]) == 0)
        opened++;
    if (opened == 3)
        result = count_opened(columns, tables, first, until, base);
    while (opened)
        PyBuffer_Release(&columns[--opened].buffer);
    return result;
}

static PyMethodDef methods[] = {
    {"count_volume", count_volume, METH_VARARGS, "Add the volume of trades to tables; see volume_count.py."},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "TABLES", TABLES);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_constants}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "volume_count", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit_volume_count(void)
{
    return PyModuleDef_Init(&definition);
}
