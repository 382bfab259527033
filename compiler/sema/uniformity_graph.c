/* Solves the graph of uniformity.h and tells why a node varies. */
#include "compiler/sema/uniformity.h"

typedef struct Flow {
    VarianceNode *from, *to;
    FlowKind kind;
    Span span;
    struct Flow *next; /* out of the same node */
} Flow;

struct VarianceNode {
    const char *text;
    Variance variance;
    const Flow *cause; /* by which it came to vary like this, over the fewest steps; NULL: by itself, or not at all */
    Flow *first, *last;
    bool is_reported[PER_LANE + 1]; /* as a cause, where control or an operand may vary as much as the index at most */
};

typedef struct VarianceCheck {
    VarianceRule rule;
    VarianceNode *node;
    Variance most;
    const char *what;
    Span span, call;
} VarianceCheck;

enum { CHAIN_MOST = 6 }; /* notes between an error and where the variance comes from */

VarianceNode *variance_node(VarianceGraph *graph, const char *text) {
    VarianceNode *node = NEW(graph->checker->context->arena, VarianceNode);
    node->text = text;
    vec_push(graph->checker->context->arena, &graph->nodes, node);
    return node;
}

VarianceNode *variance_source(VarianceGraph *graph, Variance variance, const char *text) {
    VarianceNode *node = variance_node(graph, text);
    node->variance = variance;
    vec_push(graph->checker->context->arena, &graph->sources, node);
    return node;
}

void variance_flow(VarianceGraph *graph, VarianceNode *from, VarianceNode *to, FlowKind kind, Span span) {
    if (!from || !to || from == to)
        return;
    Flow *flow = NEW(graph->checker->context->arena, Flow);
    *flow = (Flow){.from = from, .to = to, .kind = kind, .span = span};
    if (from->last)
        from->last->next = flow;
    else
        from->first = flow;
    from->last = flow;
}

void variance_check(VarianceGraph *graph, VarianceRule rule, VarianceNode *node, Variance most, const char *what, Span span, Span call) {
    VarianceCheck *check = NEW(graph->checker->context->arena, VarianceCheck);
    *check = (VarianceCheck){.rule = rule, .node = node, .most = most, .what = what, .span = span, .call = call};
    vec_push(graph->checker->context->arena, &graph->checks, check);
}

Variance variance_of(const VarianceNode *node) {
    return node->variance;
}

/* Breadth first from the most varying sources down, so that a node is reached first by what it varies like, on a shortest way. Linear. */
void variance_solve(VarianceGraph *graph) {
    VarianceNode **queue = NEW_ARRAY(graph->checker->context->arena, VarianceNode *, graph->nodes.count);
    for (Variance variance = PER_LANE; variance > CLUSTER_UNIFORM; variance--) {
        int head = 0, tail = 0;
        for (int i = 0; i < graph->sources.count; i++)
            if (graph->sources.items[i]->variance == variance && !graph->sources.items[i]->cause)
                queue[tail++] = graph->sources.items[i];
        while (head < tail)
            for (const Flow *flow = queue[head++]->first; flow; flow = flow->next) {
                if (flow->to->variance != CLUSTER_UNIFORM)
                    continue;
                flow->to->variance = variance;
                flow->to->cause = flow;
                queue[tail++] = flow->to;
            }
    }
}

/* ---- messages ---- */

static const char *variance_text(Variance variance) {
    static const char *const texts[] = {
        "is the same everywhere", "differs from CTA to CTA", "differs from warp to warp", "differs from lane to lane"};
    return texts[variance];
}

static void note_flow(Diag *diag, const Flow *flow, Variance variance) {
    switch (flow->kind) {
    case FLOW_READ:
        if (flow->from->cause)
            diag_note(diag, flow->span, "%s depends on %s", flow->to->text, flow->from->text);
        else
            diag_note(diag, flow->span, "%s depends on %s, which %s", flow->to->text, flow->from->text, variance_text(variance));
        break;
    case FLOW_UNDER:
        diag_note(diag, flow->span, "%s is assigned under control that %s", flow->to->text, variance_text(variance));
        break;
    case FLOW_RETURN:
        diag_note(diag, flow->span, "some threads have returned here, and the rest varies like this 'return'");
        break;
    case FLOW_BREAK:
        diag_note(diag, flow->span, "some threads have left the loop here, and the rest of it varies like this 'break'");
        break;
    case FLOW_CONTINUE:
        diag_note(diag, flow->span, "some threads are in their next iteration, and the rest of the loop varies like this 'continue'");
        break;
    case FLOW_WITHIN:
        break;
    }
}

/* The first step of the way back that tells the reader something. */
static const Flow *telling_flow(const VarianceNode *node) {
    const Flow *flow = node->cause;
    while (flow && flow->kind == FLOW_WITHIN)
        flow = flow->from->cause;
    return flow;
}

/* From the node back to where the variance comes from; of a long way the first steps and the last. */
static void note_chain(Diag *diag, const VarianceNode *node) {
    int count = 0, at = 0;
    for (const Flow *flow = telling_flow(node); flow; flow = telling_flow(flow->from))
        count++;
    for (const Flow *flow = telling_flow(node); flow; flow = telling_flow(flow->from)) {
        if (at < CHAIN_MOST - 1 || at == count - 1)
            note_flow(diag, flow, node->variance);
        else if (at == CHAIN_MOST - 1)
            diag_note(diag, (Span){0}, "and so on, over %d more steps", count - CHAIN_MOST);
        at++;
    }
}

static void report_control(Diag *diag, const VarianceCheck *check) {
    static const char *const who[] = {"CTAs of the cluster", "threads of the CTA", "lanes of the warp"};
    diag_error(diag, check->span, "%s stands under control that %s; all %s must reach it together", check->what, variance_text(check->node->variance),
        who[check->most]);
}

static void report(VarianceGraph *graph, const VarianceCheck *check) {
    Diag *diag = graph->checker->context->diag;
    if (check->rule == RULE_CONTROL)
        report_control(diag, check);
    else
        diag_error(diag, check->span, "%s %s; it must be uniform", check->what, variance_text(check->node->variance));
    note_chain(diag, check->node);
    if (check->call.line)
        diag_note(diag, check->call, "inlined here");
}

static bool is_jump(const Flow *flow) {
    return flow->kind == FLOW_RETURN || flow->kind == FLOW_BREAK || flow->kind == FLOW_CONTINUE;
}

/* One message a mistake: whether this cause, the condition or the operand's first step, has been reported already. */
static bool is_reported(const VarianceCheck *check) {
    const Flow *flow = telling_flow(check->node);
    while (flow && is_jump(flow))
        flow = telling_flow(flow->from);
    if (!flow)
        return false;
    VarianceNode *cause = check->rule == RULE_OPERAND ? flow->from : flow->to;
    bool was_reported = cause->is_reported[check->most];
    cause->is_reported[check->most] = true;
    return was_reported;
}

/* Whether the place has a message from another copy of the fn. */
static bool is_copy_reported(Checker *checker, Spans *spans, Span span) {
    for (int i = 0; i < spans->count; i++)
        if (spans->items[i].line == span.line && spans->items[i].column == span.column)
            return true;
    vec_push(checker->context->arena, spans, span);
    return false;
}

void variance_report(VarianceGraph *graph, bool asks_thread) {
    enum { MOST = 100 }; /* messages; more are not printed */
    Spans spans = {0};
    for (int i = 0; i < graph->checks.count && spans.count < MOST; i++) {
        const VarianceCheck *check = graph->checks.items[i];
        if (check->rule == RULE_ONCE) {
            if (asks_thread && check->node->variance <= UNIFORM && !is_copy_reported(graph->checker, &spans, check->span))
                diag_warning(graph->checker->context->diag, WARN_ONCE, check->span,
                    "%s happens once per CTA, not once per thread: nothing that it depends on differs between threads", check->what);
        } else if (check->node->variance > check->most && !is_reported(check) && !is_copy_reported(graph->checker, &spans, check->span)) {
            report(graph, check);
        }
    }
}
