/* What the printers of plans share. */
#ifndef PHOBOS_PLAN_VIEW_H
#define PHOBOS_PLAN_VIEW_H

#include "runtime/sched/course.h"

#define DOT_MAX_STEPS 256
#define SVG_MAX_STEPS 100000 /* of all rounds */

typedef struct PlanView {
    FILE *out;
    Plan *plan;
    Placement *placement;
    Model model;
    NodeSums *sums;  /* of each node */
    int64_t busiest; /* node */
    NodeTimes busiest_times;
    Unroll *unroll;
    StepCode code; /* of the step at hand */
    Instruction *instructions;
    Sources *sources;
    int64_t source; /* of a FETCH: the node */
} PlanView;

typedef void PlanVisit(PlanView *view, int64_t node, const Instruction *instruction, void *context);

/* Every instruction of a node, in order. */
void plan_view_walk(PlanView *view, int64_t node, PlanVisit *visit, void *context);
int64_t plan_view_steps(const PlanView *view); /* of all nodes */
int64_t plan_view_instructions(const NodeSums *sums);
/* "A[0:256, 512:768]": the part of the tensor, or the state, that a step uses. */
void plan_view_region(FILE *out, const Problem *problem, const Step *step, int operand);
const char *plan_mode_name(int mode);
const char *plan_policy_name(PlacementPolicy policy);

void plan_print_json(PlanView *view);
void plan_print_dot(PlanView *view);
void plan_draw_svg(const Course *course, PlanView *views, FILE *out); /* of each step */

#endif
