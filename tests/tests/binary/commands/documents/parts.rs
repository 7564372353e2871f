//! The parts of pages, and what each takes for granted.

/// Blocks of a page that follow each other on one machine.
pub(super) struct Part {
    pub(super) page: &'static str,
    /// The heading with which it begins; empty for the start of the page.
    pub(super) from: &'static str,
    /// Commands that ran before: what the page takes for granted.
    pub(super) before: &'static [&'static str],
    /// A command that fails, and its exit code.
    pub(super) failure: Option<(&'static str, &'static str)>,
}

const fn part(page: &'static str, from: &'static str, before: &'static [&'static str]) -> Part {
    Part {
        page,
        from,
        before,
        failure: None,
    }
}

const DEV: &[&str] = &["seqsvr dev"];
const TWO_ALLOCS: &[&str] = &["seqsvr dev --allocs 2", "seqsvr slot move 312 a1"];
const THREE_STORES: &[&str] = &[
    "seqsvr store --id 1 --listen 127.0.0.1:7801 --data-dir data/s1",
    "seqsvr store --id 2 --listen 127.0.0.1:7802 --data-dir data/s2",
    "seqsvr store --id 3 --listen 127.0.0.1:7803 --data-dir data/s3",
    "seqsvr init --stores 1=127.0.0.1:7801,2=127.0.0.1:7802,3=127.0.0.1:7803",
    "seqsvr alloc --name a1 --listen 127.0.0.1:7700 --stores 127.0.0.1:7801,127.0.0.1:7802",
];
const STORES_1_2_5: &[&str] = &[
    "seqsvr store --id 1 --listen 127.0.0.1:7801 --data-dir data/s1",
    "seqsvr store --id 2 --listen 127.0.0.1:7802 --data-dir data/s2",
    "seqsvr store --id 5 --listen 127.0.0.1:7805 --data-dir data/s5",
    "seqsvr init --stores 1=127.0.0.1:7801,2=127.0.0.1:7802,5=127.0.0.1:7805",
    "seqsvr alloc --name a1 --listen 127.0.0.1:7700 --stores 127.0.0.1:7801,127.0.0.1:7802",
];
const STOPPED_STORE: &[&str] = &[
    "seqsvr store --id 1 --listen 127.0.0.1:7801 --data-dir data/s1",
    "seqsvr init --stores 1=127.0.0.1:7801",
    "stop",
];
/// A minute of ids of two workers, with a burst of a third.
const IDS_FILE: &[&str] = &["{ echo order,buyer
for second in {0..59}; do
    echo $(( (1767225600000 + second * 1000 - 1288834974657) << 22 | second % 2 << 12 )),alice
done
for seq in {4095..3996}; do
    echo $(( (1767225610500 - 1288834974657) << 22 | 3 << 17 | 7 << 12 | seq )),bob
done; } >ids.txt"];

pub(super) const PARTS: [Part; 17] = [
    part("README.md", "", &[]),
    part("README.md", "## Five processes", &[]),
    part("docs/guide/grpc.md", "", DEV),
    part("docs/guide/http.md", "", &[]),
    part("docs/guide/id-presets.md", "", &[]),
    part("docs/guide/ids.md", "", IDS_FILE),
    part("docs/guide/ids.md", "## Families", DEV),
    part("docs/guide/numbers.md", "", TWO_ALLOCS),
    part("docs/guide/quick-start.md", "", &[]),
    part("docs/guide/redis.md", "", &[]),
    Part {
        failure: Some((
            "seqsvr restore FILE --id 1 --listen 127.0.0.1:7801 --data-dir data/r1",
            "2",
        )),
        ..part(
            "docs/operations/backup.md",
            "",
            &["seqsvr dev", "seqsvr backup FILE"],
        )
    },
    part(
        "docs/operations/backup.md",
        "## Without a recent backup",
        STOPPED_STORE,
    ),
    part("docs/operations/membership.md", "", THREE_STORES),
    part(
        "docs/operations/membership.md",
        "## Transfer the leadership",
        STORES_1_2_5,
    ),
    part("docs/operations/moving-slots.md", "", TWO_ALLOCS),
    part("docs/operations/running.md", "", &[]),
    part("docs/operations/security.md", "", &[]),
];
