/* The command line: what is read, what is refused, and what a program says about itself. */
#include "runtime/cli.h"
#include "tests/unit/job_fixture.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGUMENTS = 12 };

static bool parse(const char *text, CommandLine *line, ErrorList *errors) {
    static char buffer[512];
    static char *argv[MAX_ARGUMENTS];
    int argc = 1;
    argv[0] = buffer;
    snprintf(buffer, sizeof buffer, "./add %s", text);
    for (char *space = strchr(buffer, ' '); space != NULL && argc < MAX_ARGUMENTS; space = strchr(space, ' ')) {
        *space++ = '\0';
        if (*space != '\0')
            argv[argc++] = space;
    }
    return cli_parse(argc, argv, line, errors);
}

static const struct {
    const char *text, *job;
    OptionId option;
    int64_t number;
} good[] = {
    {"job.json", "job.json", OPTION_COUNT, 0},
    {"--pods=3 job.json", "job.json", OPTION_PODS, 3},
    {"--pods 3 job.json", "job.json", OPTION_PODS, 3},
    {"job.json --pods=3 --pods=4", "job.json", OPTION_PODS, 4},
    {"job.json --memory=512M", "job.json", OPTION_MEMORY, 512 << 20},
    {"job.json --progress json", "job.json", OPTION_PROGRESS, PROGRESS_JSON},
    {"job.json --leaf=first", "job.json", OPTION_LEAF, LEAF_FIRST},
    {"job.json --log=debug --threads=2 --keep-staging --device=cpu", "job.json", OPTION_LOG, LOG_DEBUG},
    {"--check job.json", "job.json", OPTION_CHECK, 0},
    {"--check=job.json", "job.json", OPTION_CHECK, 0},
    {"--plan job.json --nodes=4 --memory=1GiB --format=dot", "job.json", OPTION_FORMAT, PLAN_DOT},
    {"--nodes 4 --plan job.json", "job.json", OPTION_NODES, 4},
    {"--info", NULL, OPTION_INFO, 0},
    {"--info=json", NULL, OPTION_INFO, 1},
    {"--info json", NULL, OPTION_INFO, 1},
    {"--info job.json", "job.json", OPTION_INFO, 0},
    {"-h", NULL, OPTION_HELP, 0},
    {"--help", NULL, OPTION_HELP, 0},
    {"--version", NULL, OPTION_VERSION, 0},
    {"--job-template", NULL, OPTION_JOB_TEMPLATE, 0},
    {"-- --strange.json", "--strange.json", OPTION_COUNT, 0},
    {"", NULL, OPTION_COUNT, 0},
};

START_TEST(good_command_lines) {
    CommandLine line;
    ErrorList errors = {0};
    ck_assert_msg(parse(good[_i].text, &line, &errors), "%s: %s", good[_i].text, errors.count > 0 ? errors.lines[0] : "");
    ck_assert_pstr_eq(line.job, good[_i].job);
    if (good[_i].option != OPTION_COUNT) {
        ck_assert(line.values[good[_i].option].given);
        ck_assert_int_eq(line.values[good[_i].option].number, good[_i].number);
    }
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"--pod=3 job.json", "unknown option \"--pod\"; did you mean \"--pods\"?"},
    {"--frobnicate", "unknown option \"--frobnicate\"; --help lists what is known"},
    {"-x job.json", "unknown option \"-x\""},
    {"--pods", "--pods needs a value: --pods=N"},
    {"--pods --threads=2", "--pods needs a value: --pods=N"},
    {"--pods=0 job.json", "--pods: expected a number from 1 to 65536, found \"0\""},
    {"--pods=-1 job.json", "--pods: expected a number"},
    {"--pods=3x job.json", "--pods: expected a number"},
    {"--pods= job.json", "--pods: expected a number"},
    {"--pods=99999999999999999999 job.json", "--pods: expected a number"},
    {"--memory=0 job.json", "--memory: expected a size such as"},
    {"--memory=12Q job.json", "--memory: expected a size such as"},
    {"--memory=9999999999G job.json", "--memory: expected a size such as"},
    {"--memory=1.5G job.json", "--memory: expected a size such as"},
    {"--progress=loud job.json", "--progress: expected auto|bar|lines|json|none, found \"loud\""},
    {"--progress=ba job.json", "--progress: expected auto|bar|lines|json|none, found \"ba\""},
    {"--leaf=best job.json", "--leaf: expected model|first|measure, found \"best\""},
    {"--keep-staging=yes job.json", "--keep-staging takes no value, found \"yes\""},
    {"--info=xml", "--info: expected text|json, found \"xml\""},
    {"--device=gpu job.json", "--device: expected auto, cpu, cuda:K or simt, found \"gpu\""},
    {"--device=cuda: job.json", "--device: expected auto, cpu, cuda:K or simt"},
    {"a.json b.json", "one job at a time: both \"a.json\" and \"b.json\" are given"},
    {"--check=a.json b.json", "one job at a time"},
    {"--check --plan job.json", "--check, --plan and --role exclude each other"},
    {"--format=json job.json", "--format means nothing here: it goes with --plan"},
    {"--nodes=3 job.json", "--nodes means nothing here"},
    {"--plan --pods=3 job.json", "--pods means nothing here: it goes with a run"},
    {"--check --progress=bar job.json", "--progress means nothing here"},
    {"--role=king", "--role: expected sched|pod|keygen|doctor, found \"king\""},
    {"--role=doctor --threads=2", "--threads means nothing here: it goes with a run"},
    {"--role=doctor --trace=t", "--trace means nothing here"},
    {"--simt-seed=3 job.json", "--simt-seed means nothing here: it goes with --device=simt"},
    {"--device=cpu --simt-weak job.json", "--simt-weak means nothing here: it goes with --device=simt"},
    {"--device=simt --simt-seed=0 job.json", "--simt-seed: expected a number from 1 to 65536, found \"0\""},
    {"--device=simt --simt-elect=last job.json", "--simt-elect: expected low|high|random, found \"last\""},
    {"--split-k=2 --role=pod", "--split-k means nothing here: it goes with a run"},
    {"--split-k=0 job.json", "--split-k: expected a number from 1 to 65536, found \"0\""},
    {"--mixed --check job.json", "--mixed means nothing here: it goes with a run"},
    {"--selfcheck --role=sched job.json", "--selfcheck means nothing here: it goes with a run"},
    {"--audit-seed=2 job.json", "--audit-seed means nothing here: it goes with --audit"},
    {"--audit=5% --mixed job.json", "--audit and --mixed exclude each other"},
    {"--audit=5% --check job.json", "--audit means nothing here: it goes with a run"},
    {"--resume --check job.json", "--resume means nothing here: it goes with a run"},
    {"--trace=t.json --check job.json", "--trace means nothing here: it goes with a run"},
    {"--root=/data job.json", "--root means nothing here: it goes with --role=pod"},
    {"--root= --role=pod", "--root: expected something, found \"\""},
    {"--key=k job.json", "--key means nothing here: it goes with --role=sched"},
    {"--peers=p --role=keygen", "--peers means nothing here: it goes with --role=sched"},
    {"--audit=120% job.json", "--audit: expected 0% to 100%, found \"120%\""},
    {"--placement=best job.json", "--placement: expected round-robin|block|near-data"},
    {"--budget=lots job.json", "--budget: expected a size"},
    {"--link-bw=fast job.json", "--link-bw: expected a number such as 12.5e9"},
};

START_TEST(bad_command_lines) {
    CommandLine line;
    ErrorList errors = {0};
    ck_assert_msg(!parse(bad[_i].text, &line, &errors), "%s", bad[_i].text);
    bool said = false;
    for (int i = 0; i < errors.count; i++)
        said |= strstr(errors.lines[i], bad[_i].says) != NULL;
    ck_assert_msg(said, "%s: %s", bad[_i].text, errors.count > 0 ? errors.lines[0] : "");
    errors_free(&errors);
}
END_TEST

START_TEST(all_mistakes_are_named) {
    CommandLine line;
    ErrorList errors = {0};
    ck_assert(!parse("--pods=0 --frob --memory=x a.json b.json", &line, &errors));
    ck_assert_int_eq(errors.count, 4);
    errors_free(&errors);
}
END_TEST

static const struct {
    const char *text;
    int64_t bytes; /* 0: refused */
} sizes[] = {{"1", 1}, {"4096", 4096}, {"4K", 4096}, {"4KiB", 4096}, {"4KB", 4000}, {"2M", 2 << 20}, {"2GiB", INT64_C(2) << 30},
    {"1T", INT64_C(1) << 40}, {"10B", 10}, {"9223372036854775807", INT64_MAX}, {"9223372036854775808", 0}, {"8388608T", 0}, {"0", 0}, {"0K", 0},
    {"", 0}, {"K", 0}, {"-1", 0}, {"+1", 0}, {" 1", 0}, {"1k", 0}, {"1KK", 0}, {"1Ki", 0}, {"1 K", 0}, {"0x10", 0}};

START_TEST(byte_counts) {
    int64_t bytes = 0;
    bool fine = cli_parse_bytes(sizes[_i].text, &bytes);
    ck_assert_msg(fine == (sizes[_i].bytes != 0) && (!fine || bytes == sizes[_i].bytes), "%s: %lld", sizes[_i].text, (long long)bytes);
}
END_TEST

static char *captured(void (*print)(const PhbProgram *, FILE *)) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    print(&fixture_program, out);
    fclose(out);
    return text;
}

START_TEST(info_describes_the_kernels) {
    char *text = captured(info_print_text);
    static const char *const parts[] = {"kernel add(a: tensor<f32>[N], b: tensor<f32>[N], c: tensor<f32>[N])    t.phb:1:1", "BLOCK",
        "@autotune 16, 32", "@cluster 1024, 4096", "x: tensor<f32>[N + KW - 1]", "alpha: f32", "read-modify-write", "leaf 2: BLOCK = 32"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "%s\n%s", parts[i], text);
    free(text);
    ErrorList errors = {0};
    text = captured(info_print_json);
    JsonNode *root = json_parse_located(text, strlen(text), "info", &errors);
    ck_assert_ptr_nonnull(root);
    const JsonNode *kernels = json_member(root, "kernels");
    ck_assert_int_eq(kernels->count, 2);
    ck_assert_str_eq(json_member(kernels->first, "name")->text, "add");
    json_free(root);
    free(text);
}
END_TEST

/* What the template says is a job as soon as its files are there. */
START_TEST(the_template_is_a_job) {
    fixture_enter();
    char *text = captured(job_print_template);
    write_file("job.json", text, strlen(text));
    write_npy("a.npy", PHB_F32, 1, (int64_t[]){1024});
    write_npy("b.npy", PHB_F32, 1, (int64_t[]){1024});
    ErrorList errors = {0};
    Job *job = job_load(&fixture_program, "job.json", &errors);
    ck_assert_msg(job != NULL, "%s", errors.count > 0 ? errors.lines[0] : "");
    ck_assert_int_eq(job->remarks.count, 0);
    job_free(job);
    free(text);
    fixture_leave();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cli");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, good_command_lines, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(all, bad_command_lines, 0, sizeof bad / sizeof *bad);
    tcase_add_test(all, all_mistakes_are_named);
    tcase_add_loop_test(all, byte_counts, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(all, info_describes_the_kernels);
    tcase_add_test(all, the_template_is_a_job);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
