/* The compiled form of price_ticks.py, which states the rules; tests hold the two equal (decision record 0062).
 *
 * One pass without a branch, which the compiler vectorizes. All values are whole numbers below 2^53, so doubles compute
 * with them exactly. Adding and subtracting 1.5 * 2^52 rounds a double to a whole number; the sum's lowest 52 bits are
 * that number. Compile without fused multiplication and addition, which would round once instead of twice.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define FLOAT_ERROR_E9 2
#define MAX_PRICE (2251799813685248.0 / 1e9) /* 2^51 units */
#define MIN_TICK_E9 (2 * FLOAT_ERROR_E9 + 1)
#define ROUNDING 6755399441055744.0 /* 1.5 * 2^52 */

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORIZED
#endif

/* The bits of a double. */
static inline int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Convert prices to ticks; return whether all are near a multiple of the tick, and in range. */
VECTORIZED static int convert(const double *prices, Py_ssize_t count, double tick_e9, int64_t *ticks)
{
    double ticks_per_unit = 1e9 / tick_e9;
    int64_t faults = 0, zero = bits_of(ROUNDING);
    for (Py_ssize_t i = 0; i < count; i++) {
        double price_e9 = (prices[i] * 1e9 + ROUNDING) - ROUNDING;
        double shifted = prices[i] * ticks_per_unit + ROUNDING;
        double missed = (shifted - ROUNDING) * tick_e9 - price_e9;
        ticks[i] = bits_of(shifted) - zero;
        faults |= (fabs(missed) <= FLOAT_ERROR_E9) & (fabs(prices[i]) < MAX_PRICE) ? 0 : 1; /* 1 for a NaN */
    }
    return !faults;
}

/* Open a contiguous one-dimensional column of 8-byte items of a format. The caller releases its buffer. */
static int open_column(PyObject *array, const char *formats, int flags, Py_buffer *buffer)
{
    if (PyObject_GetBuffer(array, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0)
        return -1;
    if (buffer->ndim == 1 && buffer->itemsize == 8 && strlen(buffer->format) == 1 && strchr(formats, *buffer->format))
        return 0;
    PyBuffer_Release(buffer);
    PyErr_SetString(PyExc_TypeError, "prices must be an array of float64, ticks one of int64");
    return -1;
}

static PyObject *ticks_of_floats(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *given, *target;
    long long tick_e9;
    Py_buffer prices, ticks;
    if (!PyArg_ParseTuple(args, "OLO", &given, &tick_e9, &target) || open_column(given, "d", 0, &prices) < 0)
        return NULL;
    if (open_column(target, "lq", PyBUF_WRITABLE, &ticks) < 0) {
        PyBuffer_Release(&prices);
        return NULL;
    }
    PyObject *result = NULL;
    if (prices.shape[0] != ticks.shape[0]) {
        PyErr_SetString(PyExc_IndexError, "prices and ticks have different lengths");
    } else {
        int converted = 0;
        Py_BEGIN_ALLOW_THREADS
        if (tick_e9 >= MIN_TICK_E9)
            converted = convert(prices.buf, prices.shape[0], (double)tick_e9, ticks.buf);
        Py_END_ALLOW_THREADS
        result = PyBool_FromLong(converted);
    }
    PyBuffer_Release(&ticks);
    PyBuffer_Release(&prices);
    return result;
}

static PyMethodDef methods[] = {
    {"ticks_of_floats", ticks_of_floats, METH_VARARGS, "Convert prices to ticks; see price_ticks.py."},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    PyObject *limit = PyFloat_FromDouble(MAX_PRICE);
    if (limit == NULL || PyModule_AddObject(module, "MAX_PRICE", limit) < 0) {
        Py_XDECREF(limit);
        return -1;
    }
    return PyModule_AddIntConstant(module, "FLOAT_ERROR_E9", FLOAT_ERROR_E9);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_constants}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "price_ticks", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit_price_ticks(void)
{
    return PyModuleDef_Init(&definition);
}
