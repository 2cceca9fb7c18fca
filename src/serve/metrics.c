/* serve/metrics.c - see metrics.h. */
#include "serve/metrics.h"

#include "base/mem.h"
#include "serve/json_out.h"

#include <pthread.h>
#include <string.h>

enum { MAX_BUCKETS = 24, MAX_ROUTES = 256 };

typedef struct histogram {
    uint64_t counts[MAX_BUCKETS + 1]; /* not cumulative; the last is +Inf */
    uint64_t n;
    double   sum;
} histogram;

typedef enum histogram_id {
    H_PROMPT,
    H_GENERATION,
    H_MAX_TOKENS,
    H_N,
    H_ITERATION,
    H_FIRST_TOKEN,
    H_GAP,
    H_PER_TOKEN,
    H_TOTAL,
    H_QUEUE,
    H_INFERENCE,
    H_READING,
    H_REPLYING,
    HISTOGRAMS
} histogram_id;

static const double tokens[]     = {1,    2,    5,    10,    20,    50,    100,    200,    500,
                                    1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};
static const double iterations[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
static const double few[]        = {1, 2, 5, 10, 20};
static const double first[]      = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double gaps[]       = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
static const double totals[]     = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                    30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};

#define BUCKETS(list) (list), sizeof(list) / sizeof *(list)

static const struct {
    const char   *name, *help;
    const double *bounds;
    size_t        n;
} shapes[HISTOGRAMS] = {
    [H_PROMPT]      = {"vllm:request_prompt_tokens", "Tokens of the prompt.", BUCKETS(tokens)},
    [H_GENERATION]  = {"vllm:request_generation_tokens", "Tokens of the reply.", BUCKETS(tokens)},
    [H_MAX_TOKENS]  = {"vllm:request_params_max_tokens", "max_tokens of the request.", BUCKETS(tokens)},
    [H_N]           = {"vllm:request_params_n", "n of the request.", BUCKETS(few)},
    [H_ITERATION]   = {"vllm:iteration_tokens_total", "Tokens read and sampled in a step.", BUCKETS(iterations)},
    [H_FIRST_TOKEN] = {"vllm:time_to_first_token_seconds", "From arrival to the first token.", BUCKETS(first)},
    [H_GAP]         = {"vllm:inter_token_latency_seconds", "From one token to the next.", BUCKETS(gaps)},
    [H_PER_TOKEN]   = {"vllm:request_time_per_output_token_seconds", "Mean of a reply.", BUCKETS(gaps)},
    [H_TOTAL]       = {"vllm:e2e_request_latency_seconds", "From arrival to the end.", BUCKETS(totals)},
    [H_QUEUE]       = {"vllm:request_queue_time_seconds", "Waiting for room.", BUCKETS(totals)},
    [H_INFERENCE]   = {"vllm:request_inference_time_seconds", "Reading and replying.", BUCKETS(totals)},
    [H_READING]     = {"vllm:request_prefill_time_seconds", "Reading the prompt.", BUCKETS(totals)},
    [H_REPLYING]    = {"vllm:request_decode_time_seconds", "From the first token to the last.", BUCKETS(totals)},
};

typedef struct route_count {
    const char *path;
    unsigned    status;
    uint64_t    n;
} route_count;

struct metrics {
    pthread_mutex_t lock;
    const char     *model;
    uint32_t        max_context;
    histogram       h[HISTOGRAMS];
    uint64_t        finished[METRICS_FINISHES];
    uint64_t        prompt, cached, generated, drafted, accepted, steps, most_tokens;
    uint64_t        calls, repairs, malformed;
    double          reading, replying, step_seconds;
    uint64_t        busy; /* sum of running over steps */
    metrics_state   now;
    double          mean_seconds;
    route_count     routes[MAX_ROUTES];
    size_t          n_routes;
};

metrics *metrics_new(const char *model, uint32_t max_context)
{
    metrics *m = mem_zalloc(1, sizeof *m);
    if (m == NULL) return NULL;
    (void)pthread_mutex_init(&m->lock, NULL);
    m->model       = model;
    m->max_context = max_context;
    return m;
}

void metrics_free(metrics *m)
{
    if (m == NULL) return;
    (void)pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

/* ---- what happens ---- */

static void observe(metrics *m, histogram_id id, double value)
{
    histogram *h = &m->h[id];
    size_t     i = 0;
    while (i < shapes[id].n && value > shapes[id].bounds[i]) i++;
    h->counts[i == shapes[id].n ? MAX_BUCKETS : i]++;
    h->n++;
    h->sum += value;
}

static void observe_request(metrics *m, const metrics_request *r)
{
    observe(m, H_PROMPT, r->prompt);
    observe(m, H_GENERATION, r->completion);
    observe(m, H_MAX_TOKENS, r->max_tokens);
    observe(m, H_N, r->n);
    observe(m, H_TOTAL, r->total);
    observe(m, H_QUEUE, r->queued);
    observe(m, H_READING, r->reading);
    observe(m, H_REPLYING, r->replying);
    observe(m, H_INFERENCE, r->reading + r->replying);
    if (r->completion > 0) observe(m, H_FIRST_TOKEN, r->queued + r->reading);
    if (r->completion > 1) observe(m, H_PER_TOKEN, r->replying / (double)(r->completion - 1));
}

void metrics_request_over(metrics *m, const metrics_request *r)
{
    (void)pthread_mutex_lock(&m->lock);
    m->finished[r->finish]++;
    if (r->began) {
        observe_request(m, r);
        m->prompt += r->prompt;
        m->cached += r->cached;
        m->generated += r->completion;
        m->drafted += r->drafted;
        m->accepted += r->accepted;
        m->reading += r->reading;
        m->replying += r->replying;
        if (r->prompt + r->completion > m->most_tokens) m->most_tokens = r->prompt + r->completion;
        m->mean_seconds = m->mean_seconds <= 0 ? r->total : 0.8 * m->mean_seconds + 0.2 * r->total;
    }
    (void)pthread_mutex_unlock(&m->lock);
}

void metrics_calls(metrics *m, const weir_toolcall_info *i)
{
    (void)pthread_mutex_lock(&m->lock);
    m->calls += i->calls;
    m->repairs += i->repairs;
    m->malformed += i->malformed;
    (void)pthread_mutex_unlock(&m->lock);
}

void metrics_gap(metrics *m, double seconds)
{
    (void)pthread_mutex_lock(&m->lock);
    observe(m, H_GAP, seconds);
    (void)pthread_mutex_unlock(&m->lock);
}

void metrics_step(metrics *m, double seconds, uint32_t read, uint32_t sampled)
{
    (void)pthread_mutex_lock(&m->lock);
    observe(m, H_ITERATION, (double)read + sampled);
    m->steps++;
    m->busy += m->now.running;
    m->step_seconds += seconds;
    (void)pthread_mutex_unlock(&m->lock);
}

void metrics_set_state(metrics *m, const metrics_state *s)
{
    (void)pthread_mutex_lock(&m->lock);
    m->now = *s;
    (void)pthread_mutex_unlock(&m->lock);
}

void metrics_get_state(metrics *m, metrics_state *out)
{
    (void)pthread_mutex_lock(&m->lock);
    *out = m->now;
    (void)pthread_mutex_unlock(&m->lock);
}

double metrics_mean_seconds(metrics *m)
{
    (void)pthread_mutex_lock(&m->lock);
    const double s = m->mean_seconds;
    (void)pthread_mutex_unlock(&m->lock);
    return s;
}

void metrics_http(metrics *m, const char *path, unsigned status)
{
    (void)pthread_mutex_lock(&m->lock);
    size_t i = 0;
    while (i < m->n_routes && (m->routes[i].path != path || m->routes[i].status != status)) i++;
    if (i == m->n_routes && i < MAX_ROUTES) m->routes[m->n_routes++] = (route_count){path, status, 0};
    if (i < m->n_routes) m->routes[i].n++;
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- telling it ---- */

static void head(str *out, const char *name, const char *type, const char *help)
{
    str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The labels that vLLM's series carry; `more` begins with a comma or is "". */
static void labels(const metrics *m, const char *more, str *out)
{
    str_puts(out, "{model_name=");
    json_out_string(out, m->model, strlen(m->model)); /* the same escapes */
    str_printf(out, ",engine=\"0\"%s}", more);
}

static void one(const metrics *m, const char *name, const char *type, const char *help, double value, str *out)
{
    head(out, name, type, help);
    str_puts(out, name);
    if (strncmp(name, "vllm:", 5) == 0) labels(m, "", out);
    str_putc(out, ' ');
    json_out_number(out, value);
    str_putc(out, '\n');
}

static void put_histogram(const metrics *m, histogram_id id, const char *name, str *out)
{
    const histogram *h   = &m->h[id];
    uint64_t         sum = 0;
    char             more[48];
    head(out, name, "histogram", shapes[id].help);
    for (size_t i = 0; i <= shapes[id].n; i++) {
        str bound;
        str_init(&bound, sizeof more);
        if (i < shapes[id].n)
            json_out_number(&bound, shapes[id].bounds[i]);
        else
            str_puts(&bound, "+Inf");
        sum += h->counts[i == shapes[id].n ? MAX_BUCKETS : i];
        str_printf(out, "%s_bucket{model_name=", name);
        json_out_string(out, m->model, strlen(m->model));
        str_printf(out, ",engine=\"0\",le=\"%s\"} %llu\n", bound.data, (unsigned long long)sum);
        str_free(&bound);
    }
    str_printf(out, "%s_sum", name);
    labels(m, "", out);
    str_putc(out, ' ');
    json_out_number(out, h->sum);
    str_printf(out, "\n%s_count", name);
    labels(m, "", out);
    str_printf(out, " %llu\n", (unsigned long long)h->n);
}

static void put_vllm(const metrics *m, str *out)
{
    static const char *const finishes[] = {"stop", "length", "abort", "error"};
    const double             kv         = m->now.pool > 0 ? (double)m->now.positions / (double)m->now.pool : 0;
    one(m, "vllm:num_requests_running", "gauge", "Requests that are read or replied to.", m->now.running, out);
    one(m, "vllm:num_requests_waiting", "gauge", "Requests that wait for room.", m->now.waiting, out);
    one(m, "vllm:kv_cache_usage_perc", "gauge", "Positions of running requests, of the pool's (1: all).", kv, out);
    one(m, "vllm:gpu_cache_usage_perc", "gauge", "The same under its old name.", kv, out);
    one(m, "vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up.", (double)m->prompt, out);
    one(m, "vllm:prefix_cache_hits_total", "counter", "Of these, served from the cache.", (double)m->cached, out);
    one(m, "vllm:num_preemptions_total", "counter", "Always 0: what runs is never put aside.", 0, out);
    one(m, "vllm:prompt_tokens_total", "counter", "Prompt tokens, cached ones included.", (double)m->prompt, out);
    one(m, "vllm:generation_tokens_total", "counter", "Tokens sampled.", (double)m->generated, out);
    one(m, "vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens guessed.", (double)m->drafted, out);
    one(m, "vllm:spec_decode_num_accepted_tokens_total", "counter", "Of these, right.", (double)m->accepted, out);
    head(out, "vllm:request_success_total", "counter", "Requests that are over.");
    for (int i = 0; i < METRICS_FINISHES; i++) {
        char more[48] = ",finished_reason=\"";
        (void)strcat(strcat(more, finishes[i]), "\"");
        str_puts(out, "vllm:request_success_total");
        labels(m, more, out);
        str_printf(out, " %llu\n", (unsigned long long)m->finished[i]);
    }
}

static void put_llamacpp(const metrics *m, str *out)
{
    const double read = (double)(m->prompt - m->cached), said = (double)m->generated;
    one(m, "llamacpp:prompt_tokens_total", "counter", "Prompt tokens read, without cached ones.", read, out);
    one(m, "llamacpp:prompt_seconds_total", "counter", "Seconds spent reading.", m->reading, out);
    one(m, "llamacpp:tokens_predicted_total", "counter", "Tokens sampled.", said, out);
    one(m, "llamacpp:tokens_predicted_seconds_total", "counter", "Seconds spent replying.", m->replying, out);
    one(m, "llamacpp:n_decode_total", "counter", "Steps.", (double)m->steps, out);
    one(m, "llamacpp:n_tokens_max", "counter", "Longest prompt and reply.", (double)m->most_tokens, out);
    one(m, "llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens a second.", m->reading > 0 ? read / m->reading : 0,
        out);
    one(m, "llamacpp:predicted_tokens_seconds", "gauge", "Tokens sampled a second, of one reply.",
        m->replying > 0 ? said / m->replying : 0, out);
    one(m, "llamacpp:requests_processing", "gauge", "Requests that are read or replied to.", m->now.running, out);
    one(m, "llamacpp:requests_deferred", "gauge", "Requests that wait for room.", m->now.waiting, out);
    one(m, "llamacpp:n_busy_slots_per_decode", "gauge", "Running requests in a step, on average.",
        m->steps > 0 ? (double)m->busy / (double)m->steps : 0, out);
}

static void put_own(const metrics *m, str *out)
{
    one(m, "q35_step_seconds_total", "counter", "Seconds in steps of the engine.", m->step_seconds, out);
    one(m, "q35_steps_total", "counter", "Steps of the engine.", (double)m->steps, out);
    one(m, "q35_cache_anchors", "gauge", "Places to continue from, in memory.", m->now.cache.anchors, out);
    one(m, "q35_cache_lookups_total", "counter", "Prompts looked up in the prefix cache.", (double)m->now.cache.lookups,
        out);
    one(m, "q35_cache_hits_total", "counter", "Of these, found.", (double)m->now.cache.hits, out);
    head(out, "q35_cache_bytes", "gauge", "Bytes of the prefix cache.");
    str_printf(out, "q35_cache_bytes{tier=\"memory\"} %llu\nq35_cache_bytes{tier=\"disk\"} %llu\n",
               (unsigned long long)m->now.cache.memory_bytes, (unsigned long long)m->now.cache.disk_bytes);
    head(out, "q35_tool_parse_total", "counter", "Tool calls; tags of them put right; blocks that were no call.");
    str_printf(out,
               "q35_tool_parse_total{result=\"ok\"} %llu\nq35_tool_parse_total{result=\"repaired\"} %llu\n"
               "q35_tool_parse_total{result=\"content\"} %llu\n",
               (unsigned long long)m->calls, (unsigned long long)m->repairs, (unsigned long long)m->malformed);
    head(out, "q35_build_info", "gauge", "Always 1.");
    str_printf(out, "q35_build_info{version=\"%s\",backend=\"cpu\"} 1\n", weir_version());
    head(out, "q35_http_requests_total", "counter", "Answers by path and status.");
    for (size_t i = 0; i < m->n_routes; i++)
        str_printf(out, "q35_http_requests_total{path=\"%s\",code=\"%u\"} %llu\n", m->routes[i].path,
                   m->routes[i].status, (unsigned long long)m->routes[i].n);
}

void metrics_text(metrics *m, str *out)
{
    (void)pthread_mutex_lock(&m->lock);
    put_vllm(m, out);
    for (histogram_id id = 0; id < HISTOGRAMS; id++) put_histogram(m, id, shapes[id].name, out);
    put_histogram(m, H_GAP, "vllm:time_per_output_token_seconds", out);
    put_histogram(m, H_GENERATION, "vllm:request_max_num_generation_tokens", out);
    put_llamacpp(m, out);
    put_own(m, out);
    (void)pthread_mutex_unlock(&m->lock);
}
