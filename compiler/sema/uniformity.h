/* The graph of what varies with what, which uniformity.c draws and uniformity_graph.c answers from. */
#ifndef PHOBOS_UNIFORMITY_H
#define PHOBOS_UNIFORMITY_H

#include "compiler/sema/check.h"

/* A variable, the control at a place, an operand, or a value that varies by itself. It varies like the most varying node that leads to it. */
typedef struct VarianceNode VarianceNode;

/* How one node comes to vary like another; messages tell each in its own words. */
typedef enum FlowKind {
    FLOW_READ,   /* reads it at the span */
    FLOW_UNDER,  /* a variable that is assigned at the span, under this control */
    FLOW_WITHIN, /* is a part of it, or stands within it */
    FLOW_RETURN, /* threads may have left at the span */
    FLOW_BREAK,
    FLOW_CONTINUE,
} FlowKind;

typedef enum VarianceRule {
    RULE_CONTROL, /* `what` stands under control that varies more than `most` */
    RULE_OPERAND, /* `what` varies more than uniform */
    RULE_ONCE,    /* a warning: `what` happens once per CTA in a kernel that asks for its thread */
} VarianceRule;

typedef struct VarianceGraph {
    Checker *checker;
    VEC(VarianceNode *) nodes;
    VEC(VarianceNode *) sources;
    VEC(struct VarianceCheck *) checks; /* in the order of the text */
} VarianceGraph;

VarianceNode *variance_node(VarianceGraph *graph, const char *text);                      /* `text` is what messages call it */
VarianceNode *variance_source(VarianceGraph *graph, Variance variance, const char *text); /* varies like that by itself */
/* `to` varies at least like `from`. Either may be NULL: what never varies, and what nobody asks about. */
void variance_flow(VarianceGraph *graph, VarianceNode *from, VarianceNode *to, FlowKind kind, Span span);
/* To be held when the graph is complete; `call` is that of the fn it stands in, line 0: none. */
void variance_check(VarianceGraph *graph, VarianceRule rule, VarianceNode *node, Variance most, const char *what, Span span, Span call);

/* Computes how each node varies: the least solution. */
void variance_solve(VarianceGraph *graph);
Variance variance_of(const VarianceNode *node);
/* Reports the checks that fail, one message for each cause; RULE_ONCE where the kernel asks for its thread. */
void variance_report(VarianceGraph *graph, bool asks_thread);

#endif
