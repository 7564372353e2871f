//! The one table of presets.

use super::IdPreset;

/// Start of 2026, the epoch of the presets of this project.
const YEAR_2026_MS: u64 = 1_767_225_600_000;
/// The epoch of Twitter, 2010-11-04T01:42:54.657Z.
const TWITTER_MS: u64 = 1_288_834_974_657;
/// Start of 2015, the epoch of Discord.
const YEAR_2015_MS: u64 = 1_420_070_400_000;
/// 2014-09-01, the epoch of Sony.
const SONY_MS: u64 = 1_409_529_600_000;
/// 2020-02-19T18:20:02Z, the epoch of yitter.
const YITTER_MS: u64 = 1_582_136_402_000;

/// Layout of one level of workers in 63 bits.
const ONE_LEVEL: &str = "0:1,time:41,worker:10,seq:12";
/// Layout of one level of workers in 64 bits.
const ONE_LEVEL_64: &str = "unsigned,time:42,worker:10,seq:12";
/// Layout of two levels of workers in 64 bits.
const TWO_LEVELS_64: &str = "unsigned,time:42,dc:5,worker:5,seq:12";
/// Layout with a lane below the time.
const LANES: &str = "0:1,time:39,lane:2,worker:10,seq:12";
/// Layout of Baidu's UidGenerator.
const UID_GENERATOR: &str = "0:1,time:28,worker:22,seq:13";

/// Most presets count milliseconds and use all sequence numbers.
const MILLISECONDS: IdPreset = IdPreset {
    name: "",
    packages: &[],
    layout: ONE_LEVEL,
    epoch_ms: Some(YEAR_2026_MS),
    unit_ms: 1,
    seq_min: 0,
    note: "",
};

/// Every preset: what `decode`, the documents and the tests know of ids.
pub const PRESETS: &[IdPreset] = &[
    IdPreset {
        name: "snowflake",
        note: "the default of seqsvr",
        ..MILLISECONDS
    },
    IdPreset {
        name: "twitter",
        layout: "0:1,time:41,dc:5,worker:5,seq:12",
        epoch_ms: Some(TWITTER_MS),
        note: "Twitter's original of 2010; also Hutool and MyBatis-Plus",
        ..MILLISECONDS
    },
    IdPreset {
        name: "leaf",
        epoch_ms: Some(TWITTER_MS),
        note: "Meituan's Leaf; a millisecond begins at a random number below 100",
        ..MILLISECONDS
    },
    IdPreset {
        name: "uidgenerator",
        layout: UID_GENERATOR,
        epoch_ms: None,
        unit_ms: 1_000,
        note: "the ticks of its own epoch, 2016-05-19T16:00:00Z, ended on 2024-11-20T13:24:16Z",
        ..MILLISECONDS
    },
    IdPreset {
        name: "uidgenerator-cached",
        layout: UID_GENERATOR,
        epoch_ms: None,
        unit_ms: 1_000,
        note: "as uidgenerator; its time is ahead of the clock after a burst",
        ..MILLISECONDS
    },
    IdPreset {
        name: "sonyflake",
        packages: &[
            ("crate:sonyflake", "0.5.1"),
            ("pypi:sonyflake", "2.0.3"),
            ("pypi:sonyflake-py", "1.3.0"),
        ],
        layout: "0:1,time:39,seq:8,worker:16",
        epoch_ms: Some(SONY_MS),
        unit_ms: 10,
        note: "Sony's original; PyPI sonyflake requires an epoch from its user",
        ..MILLISECONDS
    },
    IdPreset {
        name: "js",
        layout: "time:41,worker:3,seq:9",
        note: "53 bits, which JavaScript reads exactly",
        ..MILLISECONDS
    },
    IdPreset {
        name: "ip16",
        layout: "0:1,time:41,worker:16,seq:6",
        note: "the worker is the low half of an IPv4 address; 64 ids a millisecond",
        ..MILLISECONDS
    },
    IdPreset {
        name: "timelines",
        layout: LANES,
        note: "after the clock was set back another of four timelines continues",
        ..MILLISECONDS
    },
    IdPreset {
        name: "rollbacks",
        layout: LANES,
        note: "the lane counts how often the clock was set back, at most three times",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:flake-idgen",
        packages: &[
            ("npm:flake-idgen", "1.4.0"),
            ("crate:rs-snowflake", "0.6.0"),
            ("npm:snowyflake", "2.0.1"),
        ],
        layout: TWO_LEVELS_64,
        epoch_ms: Some(0),
        note: "rs-snowflake: dc is its machine, worker its node; snowyflake: dc is its worker, \
               worker its process",
        ..MILLISECONDS
    },
    IdPreset {
        name: "crate:snowflaked",
        packages: &[
            ("crate:snowflaked", "1.0.4"),
            ("npm:snowflake-id", "1.1.0"),
            ("npm:flakeid", "1.0.1"),
            ("pypi:snowflake-id", "1.0.2"),
        ],
        layout: ONE_LEVEL_64,
        epoch_ms: Some(0),
        note: "the Unix epoch; the user may give another",
        ..MILLISECONDS
    },
    IdPreset {
        name: "crate:ferroid:mastodon",
        packages: &[("crate:ferroid:mastodon", "2.0.0")],
        layout: "unsigned,time:48,seq:16",
        epoch_ms: Some(0),
        note: "no worker; Mastodon fills the 16 bits from a hash and a sequence",
        ..MILLISECONDS
    },
    IdPreset {
        name: "crate:ferroid:twitter",
        packages: &[
            ("crate:ferroid:twitter", "2.0.0"),
            ("pypi:snowflake-id:twitter", "1.0.2"),
        ],
        layout: ONE_LEVEL_64,
        epoch_ms: Some(TWITTER_MS),
        note: "Twitter's epoch with one level of workers and 64 bits",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:@sapphire/snowflake:twitter",
        packages: &[("npm:@sapphire/snowflake:twitter", "3.5.5")],
        layout: TWO_LEVELS_64,
        epoch_ms: Some(TWITTER_MS),
        note: "dc is its worker, worker its process",
        ..MILLISECONDS
    },
    IdPreset {
        name: "crate:ferroid:instagram",
        packages: &[("crate:ferroid:instagram", "2.0.0")],
        layout: "unsigned,time:41,worker:13,seq:10",
        epoch_ms: Some(1_293_840_000_000),
        note: "the epoch of the crate; the function that Instagram published has 1314220021721",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:sonyflake",
        packages: &[("npm:sonyflake", "1.1.2")],
        layout: "unsigned,time:40,seq:8,worker:16",
        epoch_ms: Some(SONY_MS),
        note: "milliseconds, not 10 ms; its own epoch is 1970, with which all ids have 65 bits; with \
               this one, which its user gives, they have 65 from 2049 on",
        ..MILLISECONDS
    },
    IdPreset {
        name: "pypi:sonyflake-turbo",
        packages: &[("pypi:sonyflake-turbo", "1.0.1")],
        layout: "0:1,time:39,worker:16,seq:8",
        epoch_ms: Some(SONY_MS),
        unit_ms: 10,
        note: "worker above sequence, unlike Sony",
        ..MILLISECONDS
    },
    IdPreset {
        name: "crate:ferroid:discord",
        packages: &[("crate:ferroid:discord", "2.0.0")],
        layout: ONE_LEVEL_64,
        epoch_ms: Some(YEAR_2015_MS),
        note: "Discord's epoch with one level of workers",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:@sapphire/snowflake:discord",
        packages: &[
            ("npm:@sapphire/snowflake:discord", "3.5.5"),
            ("npm:snowflakify", "1.0.7"),
        ],
        layout: TWO_LEVELS_64,
        epoch_ms: Some(YEAR_2015_MS),
        note: "Discord: dc is its worker, worker its process",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:nodejs-snowflake",
        packages: &[("npm:nodejs-snowflake", "2.0.1")],
        layout: "0:1,time:41,worker:12,seq:10",
        epoch_ms: None,
        note: "without an epoch the package counts from the moment at which its object was made",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:simple-flakeid",
        packages: &[("npm:simple-flakeid", "0.0.5")],
        layout: "0:1,time:51,worker:6,seq:6",
        epoch_ms: Some(1_577_836_800_000),
        seq_min: 5,
        note: "yitter's algorithm with an epoch of its own, 2020-01-01",
        ..MILLISECONDS
    },
    IdPreset {
        name: "crate:idgenerator",
        packages: &[("crate:idgenerator", "2.0.0")],
        layout: "0:1,time:47,worker:8,seq:8",
        epoch_ms: Some(YITTER_MS),
        seq_min: 5,
        note: "yitter's algorithm, by default with 8 and 8 bits",
        ..MILLISECONDS
    },
    IdPreset {
        name: "crate:idgenerator:6-6",
        packages: &[("crate:idgenerator:6-6", "2.0.0")],
        layout: "0:1,time:51,worker:6,seq:6",
        epoch_ms: Some(YITTER_MS),
        seq_min: 5,
        note: "yitter's algorithm with 6 and 6 bits, the default in Java and .NET",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:@akashrajpurohit/snowflake-id",
        packages: &[("npm:@akashrajpurohit/snowflake-id", "2.0.0")],
        layout: ONE_LEVEL_64,
        epoch_ms: Some(1_597_017_600_000),
        note: "an epoch of its own, 2020-08-10",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:@nocobase/snowflake-id",
        packages: &[("npm:@nocobase/snowflake-id", "2.2.15")],
        layout: "time:32,worker:5,seq:16",
        epoch_ms: Some(1_605_024_000_000),
        unit_ms: 1_000,
        note: "seconds, 53 bits",
        ..MILLISECONDS
    },
    IdPreset {
        name: "npm:snowflake-uuid",
        packages: &[("npm:snowflake-uuid", "1.0.0")],
        layout: TWO_LEVELS_64,
        epoch_ms: Some(1_609_459_200_000),
        note: "an epoch of its own, 2021-01-01",
        ..MILLISECONDS
    },
];
