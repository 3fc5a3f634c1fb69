//! Measures searching and listing beside `rg` and `fd` on a tree of one's own. Run by hand or by `scripts/bench`, built for release:
//! `GATEWAY_BENCH_TREE=/a/tree cargo test --release -p session-worker -- --ignored --nocapture bench_search`.
//! Prints one JSON line for each row: medians in milliseconds.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use protocol::tool::{FindFiles, SearchText};
use sandbox_profiles::{Protected, ProtectedSources};

use super::{
    find_files::find_files,
    search_text::search_text,
    tools::{Stop, Surroundings},
};

const ROUNDS: usize = 7;

fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn beside(program: &str, arguments: &[&str], tree: &str) -> Option<f64> {
    let run = || {
        Command::new(program).args(arguments).arg(tree).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    run().ok()?;
    Some(median(|| drop(run())))
}

fn row(name: &str, ours: f64, others: &[(&str, Option<f64>)]) {
    let mut line = serde_json::json!({"row": name, "gateway_ms": (ours * 10.0).round() / 10.0});
    for (other, time) in others {
        if let Some(time) = time {
            line[other] = serde_json::json!({"ms": (time * 10.0).round() / 10.0, "ratio": (ours / time * 100.0).round() / 100.0});
        }
    }
    println!("{line}");
}

#[test]
#[ignore = "a measurement: needs a tree, and a release build to mean anything"]
fn bench_search() {
    let Ok(tree) = std::env::var("GATEWAY_BENCH_TREE") else { panic!("set GATEWAY_BENCH_TREE") };
    let fd = std::env::var("GATEWAY_BENCH_FD").unwrap_or_else(|_| "fdfind".to_owned());
    let home = std::env::var("HOME").unwrap_or_default();
    let around = Surroundings {
        working_directory: PathBuf::from(&tree),
        protected: Protected::gather(&ProtectedSources {
            homes: vec![PathBuf::from(home)],
            ..ProtectedSources::default()
        }),
        stop: Stop::default(),
    };
    for (name, query, ignore_case) in [
        ("absent", "quetzalcoatl-never-there", false),
        ("rare", "Restart the walk", false),
        ("common", "unsafe", false),
        ("non-ASCII", "naïve", false),
        ("any case", "RESTART THE WALK", true),
    ] {
        let query_of = |count_all| SearchText {
            query: query.to_owned(),
            ignore_case: Some(ignore_case),
            count_all: Some(count_all),
            ..SearchText::default()
        };
        let ours = median(|| drop(search_text(&query_of(false), &around).unwrap()));
        let case = if ignore_case { "-Fi" } else { "-F" };
        let arguments = [case, "-j2", "--no-ignore", "--hidden", "-n", "--column", query];
        let sorted = [case, "--sort", "path", "--no-ignore", "--hidden", "-n", "--column", query];
        row(
            &format!("SearchText {name}"),
            ours,
            &[("rg -j2", beside("rg", &arguments, &tree)), ("rg --sort path", beside("rg", &sorted, &tree))],
        );
        let ours = median(|| drop(search_text(&query_of(true), &around).unwrap()));
        row(&format!("SearchText {name}, count_all"), ours, &[]);
    }
    for (name, glob) in [("all", None), ("*.toml", Some("*.toml")), ("absent", Some("*.quetzal"))] {
        let input = FindFiles { glob: glob.map(str::to_owned), ..FindFiles::default() };
        let ours = median(|| drop(find_files(&input, &around).unwrap()));
        let mut arguments = vec!["-uu", "-tf"];
        match glob {
            Some(glob) => arguments.extend(["-g", glob]),
            None => arguments.push("."),
        }
        row(&format!("FindFiles {name}"), ours, &[("fd -uu -tf", beside(&fd, &arguments, &tree))]);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find(|line| line.starts_with("VmHWM")) {
        println!("{}", serde_json::json!({"row": "peak memory of this process", "value": peak}));
    }
}
