/* The compiled form of parking.py, which states the rules; the same tests run both (decision record 0063). */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <structmember.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 32
#define READ_BYTES 4096

static PyObject *default_headers, *unpark, *abort_connection;

/* What is parked at a file descriptor: a connection, or NULL. */
typedef struct {
    PyObject *connection;
    int64_t served_ns;
} Place;

typedef struct {
    PyObject_HEAD
    PyObject *serve, *state;
    Place *places; /* by file descriptor */
    int count, epoll;
} Parking;

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Return what is parked at a file descriptor; NULL if nothing is. */
static Place *parked(Parking *self, int fd)
{
    return fd >= 0 && fd < self->count && self->places[fd].connection != NULL ? &self->places[fd] : NULL;
}

static void leave_place(Parking *self, int fd, PyObject *connection)
{
    Place *place = parked(self, fd);
    if (place == NULL || place->connection != connection)
        return;
    place->connection = NULL;
    epoll_ctl(self->epoll, EPOLL_CTL_DEL, fd, NULL); /* fails if the descriptor is closed already */
    Py_DECREF(connection);
}

static PyObject *parking_park(Parking *self, PyObject *args)
{
    int fd;
    PyObject *connection;
    if (!PyArg_ParseTuple(args, "iO", &fd, &connection))
        return NULL;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
    if (epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (fd >= self->count) {
        int count = 2 * fd + 64;
        Place *places = PyMem_Realloc(self->places, count * sizeof(Place));
        if (places == NULL)
            return PyErr_NoMemory();
        memset(places + self->count, 0, (count - self->count) * sizeof(Place));
        self->places = places;
        self->count = count;
    }
    self->places[fd].served_ns = 0;
    Py_XSETREF(self->places[fd].connection, Py_NewRef(connection));
    Py_RETURN_NONE;
}

static PyObject *parking_leave(Parking *self, PyObject *args)
{
    int fd;
    PyObject *connection;
    if (!PyArg_ParseTuple(args, "iO", &fd, &connection))
        return NULL;
    leave_place(self, fd, connection);
    Py_RETURN_NONE;
}

static PyObject *parking_served_ns(Parking *self, PyObject *number)
{
    long fd = PyLong_AsLong(number);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    Place *place = parked(self, fd);
    return PyLong_FromLongLong(place == NULL ? 0 : place->served_ns);
}

/* Let the transport continue; return -1 with an error. */
static int give_back(Parking *self, int fd, PyObject *connection, const char *received, Py_ssize_t size,
                     const char *unsent, Py_ssize_t left)
{
    leave_place(self, fd, connection);
    PyObject *first = PyBytes_FromStringAndSize(received, size), *second = PyBytes_FromStringAndSize(unsent, left);
    PyObject *done = NULL;
    if (first != NULL && second != NULL)
        done = PyObject_CallMethodObjArgs(connection, unpark, first, second, NULL);
    int result = done == NULL ? -1 : 0;
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(done);
    return result;
}

/* Answer what a connection has received; return -1 with an error. */
static int answer(Parking *self, int fd, PyObject *connection, PyObject *dated)
{
    char received[READ_BYTES];
    Py_ssize_t size = recv(fd, received, sizeof received, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (size <= 0) /* the transport notices it too */
        return give_back(self, fd, connection, "", 0, "", 0);
    PyObject *data = PyBytes_FromStringAndSize(received, size), *response = NULL;
    if (data != NULL) {
        PyObject *args[] = {data, dated};
        response = PyObject_Vectorcall(self->serve, args, 2, NULL);
        Py_DECREF(data);
    }
    if (response == NULL)
        return -1;
    int result = 0;
    if (response == Py_None) {
        result = give_back(self, fd, connection, received, size, "", 0);
    } else {
        const char *bytes = PyBytes_AS_STRING(response);
        Py_ssize_t length = PyBytes_GET_SIZE(response);
        Py_ssize_t sent = send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) /* the transport notices it too */
            sent = 0;
        if (sent < length)
            result = give_back(self, fd, connection, "", 0, bytes + sent, length - sent);
        else if (parked(self, fd) != NULL)
            self->places[fd].served_ns = monotonic_ns();
    }
    Py_DECREF(response);
    return result;
}

/* Close a connection after an unexpected error, which stays set. */
static void give_up(Parking *self, int fd, PyObject *connection)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    leave_place(self, fd, connection);
    PyObject *done = PyObject_CallMethodNoArgs(connection, abort_connection);
    if (done == NULL)
        PyErr_WriteUnraisable(connection);
    Py_XDECREF(done);
    PyErr_Restore(type, value, traceback);
}

static PyObject *parking_run(Parking *self, PyObject *unused)
{
    (void)unused;
    struct epoll_event events[MOST];
    int count = epoll_wait(self->epoll, events, MOST, 0);
    PyObject *dated = PyObject_GetAttr(self->state, default_headers);
    if (dated == NULL)
        return NULL;
    for (int i = 0; i < count; i++) {
        int fd = events[i].data.fd;
        Place *place = parked(self, fd);
        if (place == NULL)
            continue;
        PyObject *connection = Py_NewRef(place->connection);
        int result = answer(self, fd, connection, dated);
        if (result < 0)
            give_up(self, fd, connection);
        Py_DECREF(connection);
        if (result < 0) {
            Py_DECREF(dated);
            return NULL;
        }
    }
    Py_DECREF(dated);
    Py_RETURN_NONE;
}

static PyObject *parking_fileno(Parking *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(self->epoll);
}

static void close_epoll(Parking *self)
{
    if (self->epoll >= 0)
        close(self->epoll);
    self->epoll = -1;
}

static PyObject *parking_close(Parking *self, PyObject *unused)
{
    (void)unused;
    close_epoll(self);
    Py_RETURN_NONE;
}

/* -- the type and the module */

static PyObject *parking_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *serve, *state;
    if (!PyArg_ParseTuple(args, "OO", &serve, &state))
        return NULL;
    Parking *self = (Parking *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->serve = Py_NewRef(serve);
    self->state = Py_NewRef(state);
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (self->epoll < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int parking_traverse(Parking *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->serve);
    Py_VISIT(self->state);
    for (int i = 0; i < self->count; i++)
        Py_VISIT(self->places[i].connection);
    return 0;
}

static int parking_clear(Parking *self)
{
    Py_CLEAR(self->serve);
    Py_CLEAR(self->state);
    for (int i = 0; i < self->count; i++)
        Py_CLEAR(self->places[i].connection);
    return 0;
}

static void parking_dealloc(Parking *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    parking_clear(self);
    PyMem_Free(self->places);
    close_epoll(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef parking_methods[] = {
    {"fileno", (PyCFunction)parking_fileno, METH_NOARGS, NULL},
    {"park", (PyCFunction)parking_park, METH_VARARGS, NULL},
    {"served_ns", (PyCFunction)parking_served_ns, METH_O, NULL},
    {"leave", (PyCFunction)parking_leave, METH_VARARGS, NULL},
    {"run", (PyCFunction)parking_run, METH_NOARGS, NULL},
    {"close", (PyCFunction)parking_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot parking_slots[] = {
    {Py_tp_doc, "All parked connections of a server; see parking.py."}, {Py_tp_methods, parking_methods},
    {Py_tp_new, parking_new}, {Py_tp_traverse, parking_traverse}, {Py_tp_clear, parking_clear},
    {Py_tp_dealloc, parking_dealloc}, {0, NULL},
};

static PyType_Spec parking_spec = {
    .name = "outcry.http.parking.Parking", .basicsize = sizeof(Parking),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .slots = parking_slots,
};

static int set_up(PyObject *module)
{
    static const struct { const char *name; PyObject **interned; } names[] = {
        {"default_headers", &default_headers}, {"unpark", &unpark}, {"abort", &abort_connection},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++)
        if ((*names[i].interned = PyUnicode_InternFromString(names[i].name)) == NULL)
            return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &parking_spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddObjectRef(module, "Parking", type);
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "parking", .m_slots = slots};

PyMODINIT_FUNC PyInit_parking(void)
{
    return PyModuleDef_Init(&definition);
}
