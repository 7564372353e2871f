//! `id create|list|alter|raise-to|workers|revoke`.

use anyhow::bail;
use seqsvr_client::{Family, FamilyLimits, FamilySpec, TickStart, WorkerId, family_of};
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::InputError;
use seqsvr_ids::presets::{IdScheme, find_preset};
use seqsvr_ids::recognition::narrow_id;
use seqsvr_ids::text::read_any_form;
use seqsvr_proto::v1::{FamilyStatus, WorkerStatus};
use serde_json::{Value, json};

use super::now;
use crate::cli;
use crate::commands::cli_client::CliClient;
use crate::output::exit_code::BadInput;
use crate::output::stdout;

const MS_PER_YEAR: u64 = 31_556_952_000;
/// Heads of the list of workers.
const WORKERS_HEAD: &str = " worker   epoch  granted until                  left  holder";
/// Preset of a family without a layout.
const DEFAULT_PRESET: &str = "snowflake";

pub(crate) async fn create(args: cli::CreateFamilyArgs) -> anyhow::Result<()> {
    let spec = build_spec(&args)?;
    check_time(&spec, args.years_min)?;
    let limits = args.limits.to_change().apply_to(&FamilyLimits::DEFAULT);
    let client = CliClient::connect(&args.client)?;
    let family = client.sdk.admin().create_family(&spec, limits).await?;
    Ok(stdout::print_line(family_line(&family))?)
}

fn build_spec(args: &cli::CreateFamilyArgs) -> anyhow::Result<FamilySpec> {
    let given = args.scheme.scheme()?;
    // What it says beside the layout holds for any other layout too.
    let preset = find_preset(args.scheme.preset.as_deref().unwrap_or(DEFAULT_PRESET))?;
    let scheme = given.map_or_else(|| preset.scheme(None), Ok)?;
    let mut spec = FamilySpec::new(&args.name, scheme.layout().clone(), scheme.scale());
    spec.seq_min = preset.seq_min;
    spec.dc = args.dc;
    let range = |(first, last)| (WorkerId(first), WorkerId(last));
    if let Some(workers) = args.workers {
        (spec.first_worker, spec.last_worker) = range(workers);
    }
    spec.reserved = args.reserve.iter().copied().map(range).collect();
    spec.reserved.sort_unstable();
    spec.lanes_once = match &args.lanes {
        Some(lanes) => lanes == "once",
        None => preset.name == "rollbacks",
    };
    spec.reuse_never = args.reuse == "never";
    spec.sticky = args.sticky;
    Ok(spec)
}

/// Rejects a layout whose time has not begun, is over, or ends in fewer years.
fn check_time(spec: &FamilySpec, years_min: u64) -> anyhow::Result<()> {
    let now_ms = now().as_millis() as u64;
    spec.layout.check_life(spec.scale, now_ms)?;
    let (begin_ms, end_ms) = (spec.scale.epoch_ms(), spec.layout.end_ms(spec.scale));
    if begin_ms > now_ms {
        let begin = format_utc_ms(begin_ms);
        bail!(BadInput(format!(
            "the epoch {begin} is after the time now: there are no ids before it; give an earlier one, such as 2026-01-01"
        )));
    }
    if end_ms < now_ms.saturating_add(years_min * MS_PER_YEAR) {
        let end = format_utc_ms(end_ms);
        bail!(BadInput(format!(
            "the time of the layout ends on {end}, in less than {years_min} years: no family is ever moved to another layout; give a later --epoch, time more bits, or lower --years-min"
        )));
    }
    Ok(())
}

pub(crate) async fn alter(args: cli::AlterFamilyArgs) -> anyhow::Result<()> {
    let mut change = args.limits.to_change();
    change.frozen = args.frozen;
    let client = CliClient::connect(&args.client)?;
    let family = client.sdk.admin().alter_family(&args.name, change).await?;
    Ok(stdout::print_line(family_line(&family))?)
}

pub(crate) async fn list(args: cli::ListArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let listed = client.sdk.admin().ids_status().await?;
    for status in &listed.families {
        let family = family_of(Some(status))?;
        if args.json {
            stdout::print_json(family_json(&family, status))?;
            continue;
        }
        let mut line = family_line(&family);
        if status.floor > 0 {
            let floor_ms = family.spec.scale.unix_ms_of(status.floor);
            line += &format!("; floor {}", format_utc_ms(floor_ms));
        }
        stdout::print_line(line)?;
    }
    Ok(())
}

pub(crate) async fn raise(args: cli::RaiseFamilyArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let (admin, name) = (client.sdk.admin(), &args.name);
    // The answer has the family, and here no worker.
    let listed = admin.list_workers(name, WorkerId(u32::MAX)).await?;
    let spec = family_of(listed.families.first())?.spec;
    let FamilySpec { layout, scale, .. } = spec;
    let tick = match (&args.id, args.time) {
        (Some(text), _) => {
            let tick = tick_of(&IdScheme::new(layout, scale), text);
            tick.map_err(|e| BadInput(format!("family {name:?}: {e}")))? + 1
        }
        (None, time) => scale.first_tick_from(time.unwrap_or(0)),
    };
    let floor = admin.raise_family(name, tick, args.force).await?;
    let from = format_utc_ms(scale.unix_ms_of(floor));
    Ok(stdout::print_line(format_args!(
        "{name}: no later grant begins before {from}"
    ))?)
}

/// Returns the tick of an id of any form that is an id of the scheme in one form only.
fn tick_of(scheme: &IdScheme, text: &str) -> Result<u64, InputError> {
    let mut read = Vec::new();
    let mut failure = None;
    for (form, number) in read_any_form(text)? {
        match narrow_id(number).and_then(|id| scheme.read(id)) {
            Ok(reading) => read.push((form, reading.parts.tick)),
            Err(error) => failure = Some(error),
        }
    }
    match (&read[..], failure) {
        ([(_, tick)], _) => Ok(*tick),
        ([], Some(failure)) => Err(failure),
        _ => {
            let forms: Vec<_> = read.iter().map(|(form, _)| form.name()).collect();
            Err(InputError(format!(
                "{text} is an id in each of {}: name the form, as in {}:{text}",
                forms.join(", "),
                forms.first().unwrap_or(&"dec")
            )))
        }
    }
}

pub(crate) async fn print_workers(args: cli::WorkersArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.list.client)?;
    let admin = client.sdk.admin();
    let is_json = args.list.json;
    let mut page = admin.list_workers(&args.name, WorkerId(0)).await?;
    let family = family_of(page.families.first())?;
    if !is_json {
        stdout::print_line(WORKERS_HEAD)?;
    }
    loop {
        for worker in &page.workers {
            match is_json {
                true => stdout::print_json(worker_json(&family, worker))?,
                false => print_worker(&family, worker, page.store_time_ms)?,
            }
        }
        match page.workers.last().map(|last| WorkerId(last.worker + 1)) {
            Some(next) if page.has_more => page = admin.list_workers(&args.name, next).await?,
            _ => return Ok(()),
        }
    }
}

pub(crate) async fn revoke(args: cli::RevokeWorkerArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let (name, worker) = (&args.name, WorkerId(args.worker));
    let until_ms = client.sdk.admin().revoke_worker(name, worker).await?;
    let until = format_utc_ms(until_ms);
    Ok(stdout::print_line(format_args!(
        "{name}: worker {worker} is revoked; its last holder may make ids until {until}"
    ))?)
}

fn family_line(family: &Family) -> String {
    let Family {
        id, spec, limits, ..
    } = family;
    let (workers, capacity, unit_ms) = (spec.worker_count(), spec.capacity(), spec.scale.unit_ms());
    let mut line = format!(
        "{} (id {id}): {}; ticks of {unit_ms} ms from {} to {}; {workers} worker{} of {} to {}, {capacity} ids a tick each, {} ids a second in all; window {} s, ahead {} s",
        spec.name,
        spec.layout,
        format_utc_ms(spec.scale.epoch_ms()),
        format_utc_ms(spec.layout.end_ms(spec.scale)),
        if workers == 1 { "" } else { "s" },
        spec.first_worker,
        spec.last_worker,
        // Workers have 22 bits and numbers of a tick 30.
        workers * capacity * 1_000 / unit_ms,
        f64::from(limits.window_ms) / 1e3,
        f64::from(limits.ahead_ms) / 1e3,
    );
    match spec.ticks_of_ms(limits.ahead_ms) * capacity {
        0 => {}
        burst => line += &format!(" (bursts of {burst} ids a worker)"),
    }
    let standard = FamilyLimits::DEFAULT;
    if limits.window_max_ms != standard.window_max_ms {
        line += &format!("; window-max {} s", f64::from(limits.window_max_ms) / 1e3);
    }
    if limits.workers_per_holder != standard.workers_per_holder {
        line += &format!("; {} workers per holder", limits.workers_per_holder);
    }
    for (at, (first, last)) in spec.reserved.iter().enumerate() {
        let head = if at == 0 { "; reserved" } else { "," };
        line += &format!("{head} {first}-{last}");
    }
    if spec.layout.bits_of("dc") > 0 {
        line += &format!("; dc {}", spec.dc);
    }
    if spec.lanes() > 1 {
        let policy = if spec.lanes_once {
            ", each used once"
        } else {
            ""
        };
        line += &format!("; {} lanes{policy}", spec.lanes());
    }
    if limits.sequence_start != TickStart::Zero {
        line += &format!("; seq-start {}", limits.sequence_start);
    }
    for (word, is_shown) in [
        ("sticky", spec.sticky),
        ("each worker granted once", spec.reuse_never),
        ("frozen", limits.frozen),
        ("not ordered by time", !spec.layout.is_ordered_by_time()),
    ] {
        if is_shown {
            line += "; ";
            line += word;
        }
    }
    line
}

fn family_json(family: &Family, status: &FamilyStatus) -> Value {
    let Family {
        id, spec, limits, ..
    } = family;
    let reserved = spec.reserved.iter().map(|(first, last)| [first.0, last.0]);
    json!({
        "id": id.0, "name": spec.name, "layout": spec.layout.to_string(),
        "epoch_ms": spec.scale.epoch_ms(), "unit_ms": spec.scale.unit_ms(),
        "end_ms": spec.layout.end_ms(spec.scale), "dc": spec.dc,
        "first_worker": spec.first_worker.0, "last_worker": spec.last_worker.0,
        "reserved": reserved.collect::<Vec<_>>(), "workers": spec.worker_count(),
        "seq_min": spec.seq_min, "ids_per_tick": spec.capacity(), "lanes": spec.lanes(),
        "lanes_once": spec.lanes_once,
        "reuse": !spec.reuse_never, "sticky": spec.sticky,
        "window_ms": limits.window_ms, "window_max_ms": limits.window_max_ms,
        "ahead_ms": limits.ahead_ms, "seq_start": limits.sequence_start.to_string(),
        "workers_per_holder": limits.workers_per_holder, "frozen": limits.frozen,
        "floor_ms": spec.scale.unix_ms_of(status.floor), "next_worker": status.next_worker,
    })
}

fn print_worker(family: &Family, worker: &WorkerStatus, store_time_ms: u64) -> anyhow::Result<()> {
    let until_ms = family.spec.scale.unix_ms_of(worker.until);
    let left_ms = until_ms.saturating_sub(store_time_ms);
    let left = match left_ms {
        0 => "-".to_owned(),
        ms => format!("{:.1} s", ms as f64 / 1e3),
    };
    let holder = match worker.held {
        true => worker.holder.clone(),
        false => format!("- (last {})", worker.holder),
    };
    let until = format_utc_ms(until_ms);
    let WorkerStatus { worker, epoch, .. } = worker;
    Ok(stdout::print_line(format_args!(
        "{worker:>7}  {epoch:>6}  {until:24}  {left:>9}  {holder}"
    ))?)
}

fn worker_json(family: &Family, worker: &WorkerStatus) -> Value {
    let scale = family.spec.scale;
    json!({
        "worker": worker.worker, "epoch": worker.epoch, "holder": worker.holder,
        "held": worker.held, "lane": worker.lane, "from_ms": scale.unix_ms_of(worker.from),
        "until_ms": scale.unix_ms_of(worker.until), "taken_ms": worker.taken_ms,
    })
}
