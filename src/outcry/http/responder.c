/* The compiled form of responder.py, which states the rules; tests hold the two equal (decision record 0063).
 *
 * It reads the slots of the classes of records.py at their offsets, and the entries of a cache in its dictionaries.
 * Rare steps are calls of Python functions.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <structmember.h>
#include <time.h>

#define HEAD_END "\r\n\r\n"
#define ID_BYTES 21
#define DIGITS 3 /* in which the ids of a block differ */
#define TAG_AT 17 /* of a condition: "\r\nif-none-match: ", then a tag of 32 digits in quotation marks */
#define TAG_BYTES 34
#define CONDITION_BYTES (TAG_AT + TAG_BYTES)

/* Offsets of slots, and the names of attributes and methods. */
static Py_ssize_t sender_audience, sender_name, sender_stamp, sender_subject, audience_fixed, audience_limit,
    audience_mark, question_current, question_encoded, question_etag, question_full, question_stamp,
    question_unchanged, question_until_ns, outcome_beginning, outcome_dated, outcome_head, outcome_pieces,
    outcome_stem, outcome_tally, tally_buckets, tally_sum_ns, freshness_stamp, freshness_until_ns;
static PyObject *allowed, *check_sender, *check_question, *prepare, *refuse, *date, *add, *reserve, *ending, *after_line;
static long longest_request, first_ns, most_lines;

/* Return the value of a slot, borrowed. */
static inline PyObject *get(PyObject *object, Py_ssize_t slot)
{
    return *(PyObject **)((char *)object + slot);
}

/* The arguments of the constructor, and what belongs to them. */
enum { SENDERS, QUESTIONS, STEPS, FRESHNESS, LIMITER, NOW_NS, IDS, LIMIT_HEADERS, LOG, ARGUMENTS,
       YOUNG_SENDERS = ARGUMENTS, OLD_SENDERS, YOUNG_QUESTIONS, OLD_QUESTIONS, TAKE, REFUSAL, LINES, PARTS };

/* The headers of verdicts that passed. The limiter returns the same verdicts again and again. */
#define MEMOS 1024
typedef struct {
    PyObject *verdict, *headers;
} Memo;

typedef struct {
    PyObject_HEAD
    PyObject *part[PARTS];
    Memo memos[MEMOS];
    char id[ID_BYTES]; /* the last request id */
    int last; /* its number in its block */
    int64_t line_ms; /* the time of `line_end` */
    PyObject *line_end;
} Responder;

/* A request while it is answered. References are owned, but for `sender` to `audience`, which the entries own. */
typedef struct {
    PyObject *block, *sender, *question, *audience;
    const char *tag; /* of its condition, if it has one */
    PyObject *outcome, *verdict, *headers;
    int64_t started_ns, now_ns;
} Exchange;

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Return an entry of a cache; NULL if there is none, or with an error. */
static PyObject *find(PyObject *cache, PyObject *young, PyObject *old, PyObject *key)
{
    PyObject *found = PyDict_GetItemWithError(young, key);
    if (found != NULL)
        return Py_NewRef(found);
    if (PyErr_Occurred() || PyDict_GET_SIZE(old) == 0)
        return NULL;
    found = PyObject_CallMethod(cache, "get", "O", key);
    if (found == Py_None)
        Py_CLEAR(found);
    return found;
}

static int is_condition(const char *line)
{
    static const char start[] = "\r\nif-none-match: \"";
    for (int i = 0; i < TAG_AT + 1; i++) {
        char letter = line[i];
        if (i == 2 || i == 5 || i == 10)
            letter |= 'a' - 'A';
        if (letter != start[i])
            return 0;
    }
    for (int i = TAG_AT + 1; i < CONDITION_BYTES - 1; i++)
        if (!((line[i] >= '0' && line[i] <= '9') || (line[i] >= 'a' && line[i] <= 'f')))
            return 0;
    const char *next = line + CONDITION_BYTES;
    return next[-1] == '"' && next[0] == '\r' && next[1] == '\n' && next[2] != ' ' && next[2] != '\t';
}

/* Return where a condition begins in header lines; NULL if there is none. */
static const char *find_condition(const char *lines, const char *end)
{
    for (const char *line = lines; end - line >= CONDITION_BYTES + 3; line++) {
        line = memchr(line, '\r', end - line);
        if (line == NULL || end - line < CONDITION_BYTES + 3)
            return NULL;
        if (is_condition(line))
            return line;
    }
    return NULL;
}

/* Find the sender of a block of header lines; return 0 if it is not known, -1 with an error.
 *
 * The condition is cut off first: the cache has no block with one. */
static int find_sender(Responder *self, const char *lines, const char *end, Exchange *exchange)
{
    PyObject **part = self->part;
    const char *cut = find_condition(lines, end);
    if (cut == NULL) {
        exchange->block = PyBytes_FromStringAndSize(lines, end - lines);
    } else {
        Py_ssize_t before = cut - lines, after = end - cut - CONDITION_BYTES;
        exchange->tag = cut + TAG_AT;
        exchange->block = PyBytes_FromStringAndSize(NULL, before + after);
        if (exchange->block != NULL)
            memcpy(mempcpy(PyBytes_AS_STRING(exchange->block), lines, before), cut + CONDITION_BYTES, after);
    }
    if (exchange->block == NULL)
        return -1;
    exchange->sender = find(part[SENDERS], part[YOUNG_SENDERS], part[OLD_SENDERS], exchange->block);
    return exchange->sender != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

static int find_question(Responder *self, const char *line, Py_ssize_t size, Exchange *exchange)
{
    PyObject **part = self->part;
    exchange->audience = get(exchange->sender, sender_audience);
    PyObject *mark = get(exchange->audience, audience_mark);
    PyObject *asked = PyBytes_FromStringAndSize(NULL, size + PyBytes_GET_SIZE(mark));
    if (asked == NULL)
        return -1;
    memcpy(PyBytes_AS_STRING(asked), line, size);
    memcpy(PyBytes_AS_STRING(asked) + size, PyBytes_AS_STRING(mark), PyBytes_GET_SIZE(mark));
    exchange->question = find(part[QUESTIONS], part[YOUNG_QUESTIONS], part[OLD_QUESTIONS], asked);
    Py_DECREF(asked);
    return exchange->question != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Return whether a step of Python returns true; -1 with an error. */
static int is_true(PyObject *result)
{
    int truth = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    return truth;
}

/* Return whether sender and answer are still valid; -1 with an error. */
static int is_valid(Responder *self, Exchange *exchange)
{
    PyObject *sender = exchange->sender, *question = exchange->question, *steps = self->part[STEPS];
    PyObject *stamp = Py_NewRef(get(self->part[FRESHNESS], freshness_stamp));
    int valid = 1;
    if (get(sender, sender_stamp) != stamp)
        valid = is_true(PyObject_CallMethodObjArgs(steps, check_sender, exchange->block, sender, stamp, NULL));
    if (valid == 1 && get(question, question_stamp) != stamp)
        valid = is_true(PyObject_CallMethodObjArgs(steps, check_question, question, stamp, NULL));
    Py_DECREF(stamp);
    if (valid != 1)
        return valid;
    PyObject *now = PyObject_CallNoArgs(self->part[NOW_NS]);
    if (now == NULL)
        return -1;
    exchange->now_ns = PyLong_AsLongLong(now);
    Py_DECREF(now);
    valid = exchange->started_ns < PyLong_AsLongLong(get(self->part[FRESHNESS], freshness_until_ns)) &&
            exchange->now_ns < PyLong_AsLongLong(get(question, question_until_ns));
    return PyErr_Occurred() ? -1 : valid;
}

/* Prepare the current state of a live session; return 0 if it is not rendered yet, -1 with an error. */
static int keep_current(Responder *self, PyObject *question)
{
    PyObject *current = get(question, question_current);
    if (current == Py_None)
        return 1;
    PyObject *encoded = PyObject_CallNoArgs(current), *done = NULL;
    int result = encoded == NULL ? -1 : encoded != Py_None;
    if (result == 1 && encoded != get(question, question_encoded)) {
        done = PyObject_CallMethodObjArgs(self->part[STEPS], prepare, question, encoded, NULL);
        result = done == NULL ? -1 : 1;
    }
    Py_XDECREF(done);
    Py_XDECREF(encoded);
    return result;
}

/* Count the request and choose its response; return 0 if the limiter cannot decide, -1 with an error. */
static int decide(Responder *self, Exchange *exchange)
{
    PyObject *question = exchange->question, *audience = exchange->audience;
    PyObject *outcome = get(question, question_full), *etag = get(question, question_etag);
    PyObject *limit[] = {get(exchange->sender, sender_subject), get(audience, audience_limit)};
    exchange->verdict = PyObject_Vectorcall(self->part[outcome == Py_None ? REFUSAL : TAKE], limit, 2, NULL);
    if (exchange->verdict == NULL)
        return -1;
    if (exchange->verdict == Py_None)
        return 0;
    Memo *memo = &self->memos[(uintptr_t)exchange->verdict / 32 % MEMOS];
    if (memo->verdict != exchange->verdict) {
        int passes = is_true(PyObject_GetAttr(exchange->verdict, allowed));
        exchange->headers = passes < 0 ? NULL : PyObject_CallOneArg(self->part[LIMIT_HEADERS], exchange->verdict);
        if (exchange->headers == NULL)
            return -1;
        if (!passes) {
            exchange->outcome =
                PyObject_CallMethodObjArgs(self->part[STEPS], refuse, question, audience, exchange->verdict, NULL);
            return exchange->outcome == NULL ? -1 : 1;
        }
        Py_XSETREF(memo->verdict, Py_NewRef(exchange->verdict));
        Py_XSETREF(memo->headers, Py_NewRef(exchange->headers));
    } else {
        exchange->headers = Py_NewRef(memo->headers);
    }
    if (exchange->tag != NULL && etag != Py_None && PyBytes_GET_SIZE(etag) == TAG_BYTES &&
        memcmp(exchange->tag, PyBytes_AS_STRING(etag), TAG_BYTES) == 0)
        outcome = get(question, question_unchanged);
    exchange->outcome = Py_NewRef(outcome);
    return 1;
}

#define APPEND(bytes) place = mempcpy(place, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes))
#define APPEND_ID place = mempcpy(place, self->id, ID_BYTES)

/* Make the next request id; return -1 with an error. */
static int make_id(Responder *self)
{
    static const char digits[] = "0123456789abcdef";
    self->last = (self->last + 1) % (1 << 4 * DIGITS);
    if (self->last == 0) {
        PyObject *front = PyObject_CallMethodNoArgs(self->part[IDS], reserve);
        if (front == NULL)
            return -1;
        memcpy(self->id, PyBytes_AS_STRING(front), ID_BYTES - DIGITS);
        Py_DECREF(front);
    }
    for (int i = 0; i < DIGITS; i++)
        self->id[ID_BYTES - 1 - i] = digits[self->last >> 4 * i & 15];
    return 0;
}

/* Join the parts of a response. All are bytes. */
static PyObject *join(Responder *self, Exchange *exchange)
{
    PyObject *outcome = exchange->outcome, *pieces = get(outcome, outcome_pieces);
    PyObject *parts[] = {get(outcome, outcome_beginning), get(outcome, outcome_head),
                         get(exchange->audience, audience_fixed), exchange->headers};
    Py_ssize_t count = PyTuple_GET_SIZE(pieces), size = count * ID_BYTES + sizeof HEAD_END - 1;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(parts); i++)
        size += PyBytes_GET_SIZE(parts[i]);
    for (Py_ssize_t i = 0; i < count; i++)
        size += PyBytes_GET_SIZE(PyTuple_GET_ITEM(pieces, i));
    PyObject *response = PyBytes_FromStringAndSize(NULL, size);
    if (response == NULL)
        return NULL;
    char *place = PyBytes_AS_STRING(response);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(parts); i++)
        APPEND(parts[i]);
    APPEND_ID;
    place = mempcpy(place, HEAD_END, sizeof HEAD_END - 1);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i)
            APPEND_ID;
        APPEND(PyTuple_GET_ITEM(pieces, i));
    }
    return response;
}

/* Add a duration to a histogram; return -1 with an error. */
static int count_in(PyObject *tally, int64_t took_ns)
{
    PyObject *took = PyLong_FromLongLong(took_ns), *buckets = get(tally, tally_buckets), *one = NULL, *sum = NULL;
    int result = -1;
    if (took != NULL && took_ns > first_ns) {
        PyObject *done = PyObject_CallMethodOneArg(tally, add, took);
        result = done == NULL ? -1 : 0;
        Py_XDECREF(done);
    } else if (took != NULL) {
        one = PyLong_FromLongLong(PyLong_AsLongLong(PyList_GET_ITEM(buckets, 0)) + 1);
        sum = PyNumber_Add(get(tally, tally_sum_ns), took);
        if (one != NULL && sum != NULL) {
            PyList_SetItem(buckets, 0, Py_NewRef(one));
            Py_SETREF(*(PyObject **)((char *)tally + tally_sum_ns), Py_NewRef(sum));
            result = 0;
        }
    }
    Py_XDECREF(took);
    Py_XDECREF(one);
    Py_XDECREF(sum);
    return result;
}

/* Keep the end of log lines up to date; return -1 with an error. */
static int renew_line_end(Responder *self, int64_t now_ns)
{
    if (now_ns / 1000000 == self->line_ms && self->line_end != NULL)
        return 0;
    PyObject *now = PyLong_FromLongLong(now_ns);
    PyObject *end = now == NULL ? NULL : PyObject_CallMethodOneArg(self->part[LOG], ending, now);
    Py_XDECREF(now);
    if (end == NULL)
        return -1;
    Py_XSETREF(self->line_end, end);
    self->line_ms = now_ns / 1000000;
    return 0;
}

/* Add the line of a request to the log; return -1 with an error. */
static int log_line(Responder *self, Exchange *exchange, int64_t took_ns)
{
    PyObject *stem = get(exchange->outcome, outcome_stem), *name = get(exchange->sender, sender_name);
    PyObject *lines = self->part[LINES];
    char took[40] = "\",\"ms\":0.000";
    int64_t microseconds = (took_ns + 500) / 1000;
    if (microseconds < 1000) {
        for (int i = 0; i < 3; i++, microseconds /= 10)
            took[11 - i] = '0' + microseconds % 10;
    } else {
        char *text = PyOS_double_to_string(took_ns / 1e6, 'f', 3, 0, NULL);
        if (text == NULL)
            return -1;
        PyOS_snprintf(took + 7, sizeof took - 7, "%s", text);
        PyMem_Free(text);
    }
    if (renew_line_end(self, exchange->now_ns) < 0)
        return -1;
    Py_ssize_t took_bytes = strlen(took);
    PyObject *line = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(stem) + PyBytes_GET_SIZE(name) + ID_BYTES +
                                                         took_bytes + PyBytes_GET_SIZE(self->line_end));
    if (line == NULL)
        return -1;
    char *place = PyBytes_AS_STRING(line);
    APPEND(stem);
    APPEND(name);
    APPEND_ID;
    place = mempcpy(place, took, took_bytes);
    APPEND(self->line_end);
    int result = PyList_Append(lines, line);
    Py_DECREF(line);
    if (result == 0 && (PyList_GET_SIZE(lines) == 1 || PyList_GET_SIZE(lines) >= most_lines)) {
        PyObject *done = PyObject_CallMethodNoArgs(self->part[LOG], after_line);
        result = done == NULL ? -1 : 0;
        Py_XDECREF(done);
    }
    return result;
}

/* Build the response whose outcome is chosen, count and log it. */
static PyObject *respond(Responder *self, Exchange *exchange, PyObject *dated)
{
    PyObject *outcome = exchange->outcome;
    if (get(outcome, outcome_dated) != dated) {
        PyObject *done = PyObject_CallMethodObjArgs(self->part[STEPS], date, outcome, exchange->question,
                                                    exchange->audience, dated, NULL);
        if (done == NULL)
            return NULL;
        Py_DECREF(done);
    }
    PyObject *response = make_id(self) < 0 ? NULL : join(self, exchange);
    int64_t took_ns = monotonic_ns() - exchange->started_ns;
    if (response != NULL && (count_in(get(outcome, outcome_tally), took_ns) < 0 || log_line(self, exchange, took_ns) < 0))
        Py_CLEAR(response);
    return response;
}

static PyObject *serve(Responder *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "serve takes the bytes of a packet and a list of headers");
        return NULL;
    }
    const char *data = PyBytes_AS_STRING(args[0]), *end = data + PyBytes_GET_SIZE(args[0]);
    const char *lines = end - data > longest_request ? NULL : memmem(data, end - data, "\r\n", 2);
    if (lines == NULL)
        Py_RETURN_NONE;
    Exchange exchange = {0};
    int known = find_sender(self, lines, end, &exchange);
    if (known == 1)
        known = find_question(self, data, lines - data, &exchange);
    exchange.started_ns = monotonic_ns();
    if (known == 1)
        known = is_valid(self, &exchange);
    if (known == 1)
        known = keep_current(self, exchange.question);
    if (known == 1)
        known = decide(self, &exchange);
    PyObject *response = known == 1 ? respond(self, &exchange, args[1]) : known == 0 ? Py_NewRef(Py_None) : NULL;
    Py_XDECREF(exchange.block);
    Py_XDECREF(exchange.sender);
    Py_XDECREF(exchange.question);
    Py_XDECREF(exchange.outcome);
    Py_XDECREF(exchange.verdict);
    Py_XDECREF(exchange.headers);
    return response;
}

/* -- the type */

static int responder_init(Responder *self, PyObject *args, PyObject *keywords)
{
    if (PyTuple_GET_SIZE(args) != ARGUMENTS || (keywords != NULL && PyDict_GET_SIZE(keywords))) {
        PyErr_Format(PyExc_TypeError, "Responder takes %d positional arguments", ARGUMENTS);
        return -1;
    }
    static const struct { int part, of; const char *name; } derived[] = {
        {YOUNG_SENDERS, SENDERS, "young"}, {OLD_SENDERS, SENDERS, "old"}, {YOUNG_QUESTIONS, QUESTIONS, "young"},
        {OLD_QUESTIONS, QUESTIONS, "old"}, {TAKE, LIMITER, "take"}, {REFUSAL, LIMITER, "refusal"},
        {LINES, LOG, "lines"},
    };
    for (int i = 0; i < ARGUMENTS; i++)
        Py_XSETREF(self->part[i], Py_NewRef(PyTuple_GET_ITEM(args, i)));
    for (size_t i = 0; i < Py_ARRAY_LENGTH(derived); i++) {
        PyObject *value = PyObject_GetAttrString(self->part[derived[i].of], derived[i].name);
        if (value == NULL)
            return -1;
        Py_XSETREF(self->part[derived[i].part], value);
    }
    self->last = (1 << 4 * DIGITS) - 1;
    return 0;
}

static int responder_traverse(Responder *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (int i = 0; i < PARTS; i++)
        Py_VISIT(self->part[i]);
    for (int i = 0; i < MEMOS; i++)
        Py_VISIT(self->memos[i].verdict);
    return 0;
}

static int responder_clear(Responder *self)
{
    for (int i = 0; i < PARTS; i++)
        Py_CLEAR(self->part[i]);
    for (int i = 0; i < MEMOS; i++) {
        Py_CLEAR(self->memos[i].verdict);
        Py_CLEAR(self->memos[i].headers);
    }
    Py_CLEAR(self->line_end);
    return 0;
}

static void responder_dealloc(Responder *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    responder_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef responder_methods[] = {
    {"serve", (PyCFunction)(void (*)(void))serve, METH_FASTCALL, "Return the response to a packet; see responder.py."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot responder_slots[] = {
    {Py_tp_doc, "Answers packets from memory; see responder.py."}, {Py_tp_methods, responder_methods},
    {Py_tp_init, responder_init}, {Py_tp_new, PyType_GenericNew}, {Py_tp_traverse, responder_traverse},
    {Py_tp_clear, responder_clear}, {Py_tp_dealloc, responder_dealloc}, {0, NULL},
};

static PyType_Spec responder_spec = {
    .name = "outcry.http.responder.Responder", .basicsize = sizeof(Responder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .slots = responder_slots,
};

/* -- the module */

/* Import an attribute, of a class if one is named; return NULL with an error. */
static PyObject *import(const char *module, const char *class, const char *name)
{
    PyObject *owner = PyImport_ImportModule(module), *found = NULL;
    if (owner != NULL && class != NULL)
        Py_SETREF(owner, PyObject_GetAttrString(owner, class));
    if (owner != NULL)
        found = PyObject_GetAttrString(owner, name);
    Py_XDECREF(owner);
    return found;
}

/* Store the offset of a class's slot; return -1 with an error. */
static int read_slot(const char *module, const char *class, const char *name, Py_ssize_t *offset)
{
    PyObject *member = import(module, class, name);
    int is_slot = member != NULL && Py_IS_TYPE(member, &PyMemberDescr_Type);
    if (is_slot)
        *offset = ((PyMemberDescrObject *)member)->d_member->offset;
    else if (member != NULL)
        PyErr_Format(PyExc_TypeError, "%s.%s is no slot", class, name);
    Py_XDECREF(member);
    return is_slot ? 0 : -1;
}

static int read_slots(void)
{
    static const char records[] = "outcry.http.records", metrics[] = "outcry.http.metrics",
                      poller[] = "outcry.http.revision_poller";
    static const struct { const char *module, *class, *name; Py_ssize_t *offset; } slots[] = {
        {records, "Sender", "audience", &sender_audience}, {records, "Sender", "name", &sender_name},
        {records, "Sender", "stamp", &sender_stamp}, {records, "Sender", "subject", &sender_subject},
        {records, "Audience", "fixed", &audience_fixed}, {records, "Audience", "limit", &audience_limit},
        {records, "Audience", "mark", &audience_mark}, {records, "Question", "current", &question_current},
        {records, "Question", "encoded", &question_encoded}, {records, "Question", "etag", &question_etag},
        {records, "Question", "full", &question_full}, {records, "Question", "stamp", &question_stamp},
        {records, "Question", "unchanged", &question_unchanged}, {records, "Question", "until_ns", &question_until_ns},
        {records, "Outcome", "beginning", &outcome_beginning}, {records, "Outcome", "dated", &outcome_dated},
        {records, "Outcome", "head", &outcome_head}, {records, "Outcome", "pieces", &outcome_pieces},
        {records, "Outcome", "stem", &outcome_stem}, {records, "Outcome", "tally", &outcome_tally},
        {metrics, "Tally", "buckets", &tally_buckets}, {metrics, "Tally", "sum_ns", &tally_sum_ns},
        {poller, "Freshness", "stamp", &freshness_stamp}, {poller, "Freshness", "until_ns", &freshness_until_ns},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(slots); i++)
        if (read_slot(slots[i].module, slots[i].class, slots[i].name, slots[i].offset) < 0)
            return -1;
    return 0;
}

static int read_constants(void)
{
    static const struct { const char *module, *name; long *value; } constants[] = {
        {"outcry.http.records", "LONGEST_REQUEST", &longest_request}, {"outcry.http.metrics", "FIRST_NS", &first_ns},
        {"outcry.http.logs", "MOST_LINES", &most_lines},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(constants); i++) {
        PyObject *value = import(constants[i].module, NULL, constants[i].name);
        *constants[i].value = value == NULL ? -1 : PyLong_AsLong(value);
        Py_XDECREF(value);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static int set_up(PyObject *module)
{
    static const struct { const char *name; PyObject **interned; } names[] = {
        {"allowed", &allowed}, {"check_sender", &check_sender}, {"check_question", &check_question},
        {"prepare", &prepare}, {"refuse", &refuse}, {"date", &date}, {"add", &add}, {"reserve", &reserve},
        {"ending", &ending}, {"after_line", &after_line},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++)
        if ((*names[i].interned = PyUnicode_InternFromString(names[i].name)) == NULL)
            return -1;
    if (read_slots() < 0 || read_constants() < 0)
        return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &responder_spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddObjectRef(module, "Responder", type);
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "responder", .m_slots = slots};

PyMODINIT_FUNC PyInit_responder(void)
{
    return PyModuleDef_Init(&definition);
}
