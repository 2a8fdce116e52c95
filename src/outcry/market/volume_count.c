/* The compiled form of volume_count.py, which states the rules; tests hold the two equal (decision record 0062).
 *
 * A block of trades is checked first, in loops that the compiler vectorizes, and then counted without any check.
 * Neighbouring trades go into different tables, because an addition to a row waits for the one before it. The tables are
 * interleaved: at a distance of 4096 bytes the processor would mistake one for another, and wait. Meanwhile the trades
 * of the next blocks are fetched into the cache.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 256
#define AHEAD (2 * BLOCK) /* trades from the one that is counted to the one that is fetched into the cache */
#define TABLES 4

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORIZED
#endif

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) ((void)(address))
#endif

/* A column of integers; `step` bytes from one to the next. They need not be aligned: a row of a file is not. */
typedef struct {
    Py_buffer buffer;
    const char *data;
    Py_ssize_t step, width;
} Column;

/* Consecutive trades, as arrays. Their sizes have `width` bytes each: 8, or 4 without a sign. */
typedef struct {
    const int64_t *at, *price;
    const void *size;
    Py_ssize_t width, count;
} Block;

/* The lowest and the highest price of the counted trades; low > high without any. */
typedef struct {
    int64_t low, high;
} Range;

static inline int64_t size_at(const Block *block, Py_ssize_t i)
{
    return block->width == 8 ? ((const int64_t *)block->size)[i] : ((const uint32_t *)block->size)[i];
}

/* The row of a price. For a price outside the tables it is at least `rows`, because the subtraction wraps around. */
static inline uint64_t row_of(int64_t price, int64_t base)
{
    return (uint64_t)price - (uint64_t)base;
}

/* Return `count` integers of a column as an array: where they are, if they are one already, else copied to `room`. */
static const void *as_array(const Column *column, Py_ssize_t first, Py_ssize_t count, int64_t *room)
{
    const char *place = column->data + first * column->step;
    if (column->step == column->width && (uintptr_t)place % (uintptr_t)column->width == 0)
        return place;
    if (column->width == 8) {
        for (Py_ssize_t i = 0; i < count; i++)
            memcpy(room + i, place + i * column->step, 8);
    } else {
        for (Py_ssize_t i = 0; i < count; i++)
            memcpy((uint32_t *)room + i, place + i * column->step, 4);
    }
    return room;
}

/* Return whether the trades are in order of time, and each has a size. */
VECTORIZED static int are_countable(const Block *block, int64_t before)
{
    int64_t fault = block->at[0] < before;
    for (Py_ssize_t i = 0; i < block->count; i++)
        fault |= size_at(block, i) <= 0;
    for (Py_ssize_t i = 1; i < block->count; i++)
        fault |= block->at[i] < block->at[i - 1];
    return !fault;
}

/* Return whether all prices are in a range. This is faster than `widened`, and most blocks are in the range so far. */
VECTORIZED static int are_within(const Block *block, Range range)
{
    uint64_t outside = 0, span = row_of(range.high, range.low);
    for (Py_ssize_t i = 0; i < block->count; i++) {
        uint64_t row = row_of(block->price[i], range.low);
        outside |= row | (span - row); /* either has the highest bit, unless row <= span */
    }
    return range.low <= range.high && !(outside >> 63);
}

/* Return a range widened to include all prices. */
VECTORIZED static Range widened(const Block *block, Range range)
{
    int64_t low = range.low, high = range.high;
    for (Py_ssize_t i = 0; i < block->count; i++) {
        low = block->price[i] < low ? block->price[i] : low;
        high = block->price[i] > high ? block->price[i] : high;
    }
    return (Range){low, high};
}

/* Add trades that can be counted to the tables. */
static void add(const Block *block, int64_t base, int64_t *tables, const Column *columns, Py_ssize_t first)
{
    Py_ssize_t i = 0;
    for (; i + 2 * TABLES <= block->count; i += 2 * TABLES) {
        for (int column = 0; column < 3; column++)
            FETCH(columns[column].data + (first + i + AHEAD) * columns[column].step);
        for (int next = 0; next < 2 * TABLES; next++)
            tables[TABLES * row_of(block->price[i + next], base) + next % TABLES] += size_at(block, i + next);
    }
    for (; i < block->count; i++)
        tables[TABLES * row_of(block->price[i], base)] += size_at(block, i);
}

/* Add the trades of a block to the tables until one cannot be counted; return their number. */
static Py_ssize_t add_until_fault(const Block *block, int64_t before, int64_t base, int64_t *tables, Py_ssize_t rows,
                                  Range *range)
{
    Py_ssize_t i = 0;
    for (; i < block->count; before = block->at[i++]) {
        int64_t price = block->price[i];
        if (block->at[i] < before || size_at(block, i) <= 0 || row_of(price, base) >= (uint64_t)rows)
            break;
        tables[TABLES * row_of(price, base)] += size_at(block, i);
        range->low = price < range->low ? price : range->low;
        range->high = price > range->high ? price : range->high;
    }
    return i;
}

static Py_ssize_t count_columns(const Column *columns, Py_ssize_t first, Py_ssize_t until, int64_t base, int64_t *tables,
                                Py_ssize_t rows, Range *range)
{
    int64_t times[BLOCK], prices[BLOCK], sizes[BLOCK], before = INT64_MIN;
    if (first)
        memcpy(&before, columns[0].data + (first - 1) * columns[0].step, 8);
    while (first < until) {
        Block block = {.width = columns[2].width, .count = until - first < BLOCK ? until - first : BLOCK};
        block.at = as_array(&columns[0], first, block.count, times);
        block.price = as_array(&columns[1], first, block.count, prices);
        block.size = as_array(&columns[2], first, block.count, sizes);
        Range wider = are_within(&block, *range) ? *range : widened(&block, *range);
        if (!are_countable(&block, before) || wider.low < base || row_of(wider.high, base) >= (uint64_t)rows)
            return first + add_until_fault(&block, before, base, tables, rows, range);
        *range = wider;
        add(&block, base, tables, columns, first);
        before = block.at[block.count - 1];
        first += block.count;
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
    } else if (tables.ndim != 2 || tables.shape[1] != TABLES || tables.itemsize != 8) {
        PyErr_SetString(PyExc_TypeError, "tables must be four columns of int64");
    } else {
        Py_ssize_t counted;
        Range range = {INT64_MAX, INT64_MIN};
        Py_BEGIN_ALLOW_THREADS
        counted = count_columns(columns, first, until, base, tables.buf, tables.shape[0], &range);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("nLL", counted, (long long)range.low, (long long)range.high);
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
