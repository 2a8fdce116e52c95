/* The compiled form of counting.py, which states the rules; tests hold the two equal (decision record 0063). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#define LEAST_DROPPED 32
#define NS_PER_MS 1000000

static int64_t window_ns;
static PyObject *name_turn, *name_young, *name_of, *passed_verdicts, *passed;
static PyTypeObject *log_type, *verdict_type;

/* -- the log of a subject: the times of its requests, of which those before `head` have left the window */

typedef struct {
    PyObject_HEAD
    int64_t *times;
    Py_ssize_t head, size, room;
} RequestLog;

/* Return the first entry after a time, at or after `head`. */
static Py_ssize_t first_after(RequestLog *self, int64_t time)
{
    Py_ssize_t low = self->head, high = self->size;
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (self->times[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Skip entries that have left the window, and delete them once they are the majority. */
static void expire(RequestLog *self, int64_t now_ns)
{
    Py_ssize_t head = first_after(self, now_ns - window_ns);
    if (head == self->size || (head > LEAST_DROPPED && 2 * head > self->size)) {
        self->size -= head;
        memmove(self->times, self->times + head, self->size * sizeof *self->times);
        head = 0;
    }
    self->head = head;
}

/* Add a request if it passes. Return how many are left, a negative number if it does not pass, or -1 with an error. */
static int64_t take(RequestLog *self, int64_t now_ns, int64_t limit)
{
    if (self->head < self->size && self->times[self->head] <= now_ns - window_ns)
        expire(self, now_ns);
    int64_t left = limit - (self->size - self->head) - 1;
    if (left < 0)
        return left;
    if (self->size == self->room) {
        Py_ssize_t room = 2 * self->room + 4;
        int64_t *times = PyMem_Realloc(self->times, room * sizeof *times);
        if (times == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->times = times;
        self->room = room;
    }
    self->times[self->size++] = now_ns;
    return left;
}

static PyObject *log_take(RequestLog *self, PyObject *args)
{
    long long now_ns, limit;
    if (!PyArg_ParseTuple(args, "LL", &now_ns, &limit))
        return NULL;
    int64_t left = take(self, now_ns, limit);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(left);
}

static PyObject *log_live(RequestLog *self, PyObject *now)
{
    long long now_ns = PyLong_AsLongLong(now);
    if (now_ns == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromSsize_t(self->size - first_after(self, now_ns - window_ns));
}

static Py_ssize_t log_length(RequestLog *self)
{
    return self->size;
}

static PyObject *log_item(RequestLog *self, Py_ssize_t index)
{
    if (index < 0 || index >= self->size) {
        PyErr_SetString(PyExc_IndexError, "no such entry");
        return NULL;
    }
    return PyLong_FromLongLong(self->times[index]);
}

static void log_dealloc(RequestLog *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->times);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef log_methods[] = {
    {"take", (PyCFunction)log_take, METH_VARARGS, NULL}, {"live", (PyCFunction)log_live, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot log_slots[] = {
    {Py_tp_doc, "The times of one subject's allowed requests; see counting.py."}, {Py_tp_methods, log_methods},
    {Py_tp_new, PyType_GenericNew}, {Py_tp_dealloc, log_dealloc}, {Py_sq_length, log_length}, {Py_sq_item, log_item},
    {0, NULL},
};

static PyType_Spec log_spec = {
    .name = "outcry.access.counting.RequestLog", .basicsize = sizeof(RequestLog), .flags = Py_TPFLAGS_DEFAULT,
    .slots = log_slots,
};

/* -- all subjects */

typedef struct {
    PyObject_HEAD
    PyObject *now_ns, *logs, *young;
    int64_t turn_ns;
} Counting;

static int turn(Counting *self, PyObject *now, int64_t now_ns)
{
    PyObject *turned = PyObject_CallMethodOneArg(self->logs, name_turn, now);
    PyObject *young = turned == NULL ? NULL : PyObject_GetAttr(self->logs, name_young);
    Py_XDECREF(turned);
    if (young == NULL)
        return -1;
    Py_XSETREF(self->young, young);
    self->turn_ns = now_ns + window_ns;
    return 0;
}

/* Return the log of a subject, as a new reference. */
static RequestLog *log_of(Counting *self, PyObject *subject)
{
    PyObject *log = Py_XNewRef(PyDict_GetItemWithError(self->young, subject));
    if (log == NULL && !PyErr_Occurred())
        log = PyObject_CallMethodOneArg(self->logs, name_of, subject);
    if (log != NULL && !Py_IS_TYPE(log, log_type)) {
        PyErr_SetString(PyExc_TypeError, "subjects must have logs of this module");
        Py_CLEAR(log);
    }
    return (RequestLog *)log;
}

/* Return the milliseconds until a time that is not in the past, rounded up. */
static long long until_ms(int64_t at_ns, int64_t now_ns)
{
    return (at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
}

/* Return the verdict of a refused request, like `refused` of sliding_window.py. */
static PyObject *refused(RequestLog *log, int64_t limit, int64_t now_ns)
{
    long long reset_ms = 0, retry_ms = window_ns / NS_PER_MS;
    if (log->size > 0) {
        int64_t last_ns = log->times[log->size - 1], blocker_ns = limit ? log->times[log->size - limit] : last_ns;
        reset_ms = until_ms(last_ns + window_ns, now_ns);
        retry_ms = until_ms(blocker_ns + window_ns, now_ns);
    }
    PyObject *values = Py_BuildValue("((OiLL))", Py_False, 0, reset_ms, retry_ms);
    PyObject *verdict = values == NULL ? NULL : PyTuple_Type.tp_new(verdict_type, values, NULL);
    Py_XDECREF(values);
    return verdict;
}

static PyObject *verdict_of(RequestLog *log, int64_t limit, int64_t now_ns, int64_t left)
{
    if (left < 0)
        return refused(log, limit, now_ns);
    if (left < PyTuple_GET_SIZE(passed_verdicts))
        return Py_NewRef(PyTuple_GET_ITEM(passed_verdicts, left));
    return PyObject_CallFunction(passed, "L", (long long)left);
}

static PyObject *counting_take(Counting *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "take() takes a subject and a limit");
        return NULL;
    }
    PyObject *now = PyObject_CallNoArgs(self->now_ns), *verdict = NULL;
    if (now == NULL)
        return NULL;
    int64_t now_ns = PyLong_AsLongLong(now), limit = PyLong_AsLongLong(args[1]);
    RequestLog *log = NULL;
    if (!PyErr_Occurred() && (now_ns < self->turn_ns || turn(self, now, now_ns) == 0))
        log = log_of(self, args[0]);
    if (log != NULL) {
        int64_t left = take(log, now_ns, limit);
        if (!PyErr_Occurred())
            verdict = verdict_of(log, limit, now_ns, left);
    }
    Py_XDECREF(log);
    Py_DECREF(now);
    return verdict;
}

static PyObject *counting_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *now_ns, *logs;
    if (!PyArg_ParseTuple(args, "OO", &now_ns, &logs))
        return NULL;
    Counting *self = (Counting *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->now_ns = Py_NewRef(now_ns);
    self->logs = Py_NewRef(logs);
    self->young = PyObject_GetAttr(logs, name_young);
    if (self->young == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int counting_traverse(Counting *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->now_ns);
    Py_VISIT(self->logs);
    Py_VISIT(self->young);
    return 0;
}

static int counting_clear(Counting *self)
{
    Py_CLEAR(self->now_ns);
    Py_CLEAR(self->logs);
    Py_CLEAR(self->young);
    return 0;
}

static void counting_dealloc(Counting *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    counting_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef counting_methods[] = {
    {"take", (PyCFunction)(void (*)(void))counting_take, METH_FASTCALL, NULL}, {NULL, NULL, 0, NULL},
};

static PyType_Slot counting_slots[] = {
    {Py_tp_doc, "Counts the requests of all subjects; see counting.py."}, {Py_tp_methods, counting_methods},
    {Py_tp_new, counting_new}, {Py_tp_traverse, counting_traverse}, {Py_tp_clear, counting_clear},
    {Py_tp_dealloc, counting_dealloc}, {0, NULL},
};

static PyType_Spec counting_spec = {
    .name = "outcry.access.counting.Counting", .basicsize = sizeof(Counting),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .slots = counting_slots,
};

/* -- the module */

static int read_rules(void)
{
    PyObject *limiter = PyImport_ImportModule("outcry.access.limiter"), *window = NULL;
    PyObject *rules = PyImport_ImportModule("outcry.access.sliding_window");
    int result = -1;
    if (limiter != NULL && rules != NULL && (window = PyObject_GetAttrString(limiter, "WINDOW_NS")) != NULL &&
        (passed_verdicts = PyObject_GetAttrString(rules, "PASSED")) != NULL &&
        (passed = PyObject_GetAttrString(rules, "passed")) != NULL &&
        (verdict_type = (PyTypeObject *)PyObject_GetAttrString(limiter, "Verdict")) != NULL) {
        window_ns = PyLong_AsLongLong(window);
        result = PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(limiter);
    Py_XDECREF(window);
    Py_XDECREF(rules);
    return result;
}

static int set_up(PyObject *module)
{
    if ((name_turn = PyUnicode_InternFromString("turn")) == NULL ||
        (name_young = PyUnicode_InternFromString("young")) == NULL ||
        (name_of = PyUnicode_InternFromString("of")) == NULL || read_rules() < 0)
        return -1;
    log_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &log_spec, NULL);
    if (log_type == NULL || PyModule_AddObjectRef(module, "RequestLog", (PyObject *)log_type) < 0)
        return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &counting_spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddObjectRef(module, "Counting", type);
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "counting", .m_slots = slots};

PyMODINIT_FUNC PyInit_counting(void)
{
    return PyModuleDef_Init(&definition);
}
