//! External runners that misbehave: each gives one clear failure, none hangs, nothing is left.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ipu_tune::device::{CommandDevice, Device, DeviceError, HostData, Measurement};
use ipu_tune::package::{Application, Binding, RegionSlice};

/// Bytes of outputs that the package of these tests has.
const OUTPUTS: u64 = 8;

fn application() -> Application {
    let slice = RegionSlice { tile: 0, tile_address: 0x8_0000, file_offset: 0, size: OUTPUTS };
    let output = Binding {
        name: "y".to_owned(),
        dtype: "f32".to_owned(),
        shape: vec![2],
        slices: vec![slice],
    };
    Application { outputs: vec![output], ..Application::default() }
}

/// Runs a shell script that gets the paths of package, weights, inputs and outputs.
fn device(folder: &Path, script: &str) -> CommandDevice {
    let path = folder.join("a runner.sh");
    std::fs::write(&path, script).expect("a writable folder");
    let template =
        format!("sh '{}' {{package}} {{weights}} {{inputs}} {{outputs}}", path.display());
    let lock = folder.join("lock");
    CommandDevice { timeout: Duration::from_secs(20), lock, ..CommandDevice::new(&template) }
}

fn measure(script: &str) -> Result<Measurement, DeviceError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = HostData { weights: b"weights".to_vec(), inputs: b"inputs!!".to_vec() };
    device(folder.path(), script).measure(&application(), &data, &AtomicBool::new(false))
}

#[test]
fn a_good_runner_gets_the_files_and_is_believed() {
    let script = "test -s $1 && test \"$(cat $2)\" = weights && cp $3 $4 && \
                  echo '{\"cycles\": [7, 9], \"device\": \"card\"}'";
    let found = measure(script).unwrap();
    assert_eq!((found.cycles, found.outputs), (vec![7, 9], b"inputs!!".to_vec()));
    assert_eq!(found.device.name, "command:card");
    assert!(!found.device.simulated && found.steps.is_empty());
}

#[test]
fn odd_answers_are_failures_that_say_what_was_odd() {
    let cases = [
        ("true", "0 lines"),
        ("echo; echo '  '", "0 lines"),
        ("echo reason >&2", "reason"),
        ("echo reason >&2; exit 3", "reason"),
        ("echo '{\"cycles\": [5]}'; exit 3", "exit status: 3"),
        ("kill -9 $$", "signal: 9"),
        ("echo '{\"cycles\": [5]'", "EOF"),
        ("echo '{\"cycles\": [5]}'; echo '{\"cycles\": [5]}'", "2 lines"),
        ("echo '{\"cycles\": [NaN]}'", "NaN"),
        ("echo '{\"cycles\": [1e999]}'", "1e999"),
        ("echo '{\"cycles\": [-5]}'", "-5"),
        ("echo '{\"cycles\": [0]}'", "0 cycles"),
        ("echo '{\"cycles\": []}'", "0 cycle counts"),
        ("echo '{}'", "0 cycle counts"),
        ("echo '{\"cycles\": [18446744073709551615]}'", "18446744073709551615"),
        ("echo '{\"status\": \"fine\"}'", "status"),
        ("printf '\\377\\376\\n'", "UTF-8"),
        ("head -c 100000000 /dev/zero | tr '\\0' x", "more than"),
        ("echo '{\"cycles\": [5]}'", "no outputs"),
        ("printf 1234567 > $4; echo '{\"cycles\": [5]}'", "fewer output bytes"),
        ("printf 123456789 > $4; echo '{\"cycles\": [5]}'", "more output bytes"),
        ("echo '{\"error\": \"no card\"}'", "no card"),
        ("echo '{\"error\": \"no card\"}'; exit 9", "no card"),
    ];
    for (script, wanted) in cases {
        let error = measure(script).expect_err(script);
        assert!(error.to_string().contains(wanted), "{script}: {error}");
        assert!(!error.is_transient() && !error.is_candidate_fault(), "{script}");
    }
}

#[test]
fn only_transient_errors_are_tried_again_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let runs = || std::fs::read_to_string(&count).unwrap().len();
    for (transient, wanted) in [(true, 3), (false, 1)] {
        let script = format!(
            "printf x >> '{}'; echo '{{\"error\": \"busy\", \"transient\": {transient}}}'",
            count.display()
        );
        std::fs::write(&count, "").unwrap();
        let error = device(folder.path(), &script)
            .measure(&application(), &HostData::default(), &AtomicBool::new(false))
            .unwrap_err();
        assert_eq!((error.is_transient(), runs()), (transient, wanted));
    }
}

#[test]
fn a_runner_that_does_not_exist_cannot_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let device = CommandDevice { lock, ..CommandDevice::new("/no/such/runner {package}") };
    let error =
        device.measure(&application(), &HostData::default(), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, DeviceError::Start { .. }), "{error}");
}

#[test]
fn a_runner_that_hangs_is_stopped_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("sleep 300 & echo $! > '{}'; wait", pid.display());
    let device =
        CommandDevice { timeout: Duration::from_secs(1), ..device(folder.path(), &script) };
    let error =
        device.measure(&application(), &HostData::default(), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, DeviceError::TimedOut { seconds: 1, .. }), "{error}");
    let child = std::fs::read_to_string(&pid).unwrap();
    assert!(is_gone(child.trim()), "the runner's child {child} still runs");
}

#[test]
fn children_that_outlive_a_runner_are_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!(
        "sleep 300 & echo $! > '{}'; printf 12345678 > $4; echo '{{\"cycles\": [5]}}'",
        pid.display()
    );
    let found = device(folder.path(), &script).measure(
        &application(),
        &HostData::default(),
        &AtomicBool::new(false),
    );
    assert_eq!(found.unwrap().cycles, [5]);
    let child = std::fs::read_to_string(&pid).unwrap();
    assert!(is_gone(child.trim()), "the runner's child {child} still runs");
}

#[test]
fn a_child_that_leaves_the_group_cannot_hold_a_run_up() {
    // The runner ends only after the child has left the group: before that, the child is stopped
    // with it. Whoever waited for the child would see the output closed and a good answer.
    let script = "export LEFT=$4.left; setsid sh -c 'touch \"$LEFT\"; exec sleep 30' & \
                  until test -e $LEFT; do sleep 0.01; done; \
                  printf 12345678 > $4; echo '{\"cycles\": [5]}'";
    let error = measure(script).unwrap_err();
    assert!(error.to_string().contains("keeps its output open"), "{error}");
}

/// Whether a process has ended; a zombie that nobody has collected yet counts as ended.
fn is_gone(pid: &str) -> bool {
    (0..100).any(|_| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
        let gone = matches!(state, None | Some('Z' | 'X'));
        if !gone {
            std::thread::sleep(Duration::from_millis(20));
        }
        gone
    })
}

#[test]
fn a_runner_that_never_ends_does_not_outlive_the_budget() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mark = folder.path().join("child");
    let script = format!("trap '' TERM; sleep 1000 & echo $! > '{}'; wait", mark.display());
    let (device, stop) = (device(folder.path(), &script), AtomicBool::new(false));
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| device.measure(&application(), &HostData::default(), &stop));
        while std::fs::read_to_string(&mark).map_or(true, |text| !text.ends_with('\n')) {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").unwrap_err()
    });
    assert!(matches!(error, DeviceError::Stopped), "{error}");
    let child = std::fs::read_to_string(&mark).unwrap();
    assert!(is_gone(child.trim()), "the runner's child {child} still runs");
}
