//! The cores that the control groups of this process still allow it, such as those of a container started with `--cpus=2`.
//!
//! The kernel halts a group that has used its quota, training included, however many cores of the machine are idle.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Mount point of the control groups of both versions.
const MOUNT: &str = "/sys/fs/cgroup";

/// The groups of this process that may have a quota: its own and those around it.
pub struct CpuQuota {
    groups: Vec<Group>,
}

struct Group {
    directory: Directory,
    /// CPU time at the last look, in seconds.
    used: Option<f64>,
}

enum Directory {
    /// `cpu.max`, and `usage_usec` of `cpu.stat`.
    V2(PathBuf),
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`; `cpuacct.usage`.
    V1 { cpu: PathBuf, usage: PathBuf },
}

impl Default for CpuQuota {
    fn default() -> Self {
        Self::new(Path::new(MOUNT), &read_to_string("/proc/self/cgroup").unwrap_or_default())
    }
}

impl CpuQuota {
    /// Finds the groups that `own`, in the format of `/proc/self/cgroup`, names below the mount point.
    fn new(mount: &Path, own: &str) -> Self {
        let mut groups = Vec::new();
        let controller = |name: &str| own.lines().find_map(|line| in_hierarchy(line, name));
        if let Some(path) = controller("").filter(|_| mount.join("cgroup.controllers").exists()) {
            groups.extend(upwards(mount, path).into_iter().map(Directory::V2));
        }
        if let Some((cpu, usage)) = controller("cpu").zip(controller("cpuacct")) {
            let both = upwards(&mount.join("cpu"), cpu).into_iter().zip(upwards(&mount.join("cpuacct"), usage));
            groups.extend(both.map(|(cpu, usage)| Directory::V1 { cpu, usage }));
        }
        Self { groups: groups.into_iter().map(|directory| Group { directory, used: None }).collect() }
    }

    /// The least that a group has left of its quota, in cores, over the `seconds` since the last look. `None` without a
    /// quota, and at the first look.
    pub fn look(&mut self, seconds: f64) -> Option<f64> {
        self.groups.iter_mut().filter_map(|group| group.look(seconds)).min_by(f64::total_cmp)
    }
}

impl Group {
    fn look(&mut self, seconds: f64) -> Option<f64> {
        let now = self.directory.used();
        let before = std::mem::replace(&mut self.used, now);
        Some((self.directory.quota()? - (now? - before?) / seconds).max(0.0))
    }
}

impl Directory {
    /// The quota in cores; `None` if there is none.
    fn quota(&self) -> Option<f64> {
        let (quota, period) = match self {
            Self::V2(group) => {
                let limits = read_to_string(group.join("cpu.max")).ok()?;
                let (quota, period) = limits.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
            Self::V1 { cpu, .. } => (number(&cpu.join("cpu.cfs_quota_us"))?, number(&cpu.join("cpu.cfs_period_us"))?),
        };
        // Version 1 states -1 for no quota.
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    }

    /// CPU time that the group has used, in seconds.
    fn used(&self) -> Option<f64> {
        match self {
            Self::V2(group) => {
                let stat = read_to_string(group.join("cpu.stat")).ok()?;
                let used = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                Some(used.trim().parse::<f64>().ok()? / 1e6)
            }
            Self::V1 { usage, .. } => Some(number(&usage.join("cpuacct.usage"))? / 1e9),
        }
    }
}

fn number(file: &Path) -> Option<f64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

/// The path of a line of `/proc/self/cgroup`, `ID:CONTROLLERS:PATH`, if it is of this controller; of version 2 for none.
fn in_hierarchy<'a>(line: &'a str, controller: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    controllers.split(',').any(|name| name == controller).then_some(path)
}

/// The directories of a group and those around it, innermost first. In a container the path may be that of the host, which
/// is not mounted: there the mount point is the group.
fn upwards(mount: &Path, path: &str) -> Vec<PathBuf> {
    let inner = mount.join(path.trim_start_matches('/'));
    let found = inner.ancestors().take_while(|directory| directory.starts_with(mount));
    found.filter(|directory| directory.exists()).map(Path::to_path_buf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let file = root.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
    }

    /// Groups of the kernel, one for each of two controllers, which are removed in the end.
    struct Made([std::path::PathBuf; 2]);

    impl Drop for Made {
        fn drop(&mut self) {
            self.0.iter().for_each(|group| drop(std::fs::remove_dir(group)));
        }
    }

    /// Needs version 1 and the right to create groups; the file trees below need neither.
    #[test]
    fn a_group_of_the_kernel_has_left_what_its_process_has_not_used() {
        let name = format!("conceptwatch-test-{}", std::process::id());
        let made = Made(["cpu", "cpuacct"].map(|controller| Path::new(MOUNT).join(controller).join(&name)));
        let [cpu, usage] = &made.0;
        let is_made = made.0.iter().all(|group| std::fs::create_dir(group).is_ok());
        if !is_made || std::fs::write(cpu.join("cpu.cfs_quota_us"), "150000").is_err() {
            return;
        }
        let mut quota = CpuQuota::new(Path::new(MOUNT), &format!("1:cpu:/{name}\n2:cpuacct:/{name}\n"));
        assert_eq!(quota.look(1.0), None, "nothing is known before a period has passed");
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        made.0.iter().for_each(|group| std::fs::write(group.join("cgroup.procs"), busy.id().to_string()).unwrap());
        let used = || number(&usage.join("cpuacct.usage")).unwrap() / 1e9;
        while used() < 0.2 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        busy.kill().and_then(|()| busy.wait()).unwrap();
        let left = quota.look(1.0).unwrap();
        assert!((left - (1.5 - used())).abs() < 1e-6, "{left} of 1.5 cores, {} used", used());
    }

    #[test]
    fn version_2_leaves_what_the_tightest_group_has_not_used() {
        let root = tempfile::tempdir().unwrap();
        let used = |inner: u64, outer: u64| {
            let (inner, outer) = (format!("usage_usec {inner}\nuser_usec 1\n"), format!("usage_usec {outer}\n"));
            write(root.path(), &[("pod/box/cpu.stat", &inner), ("pod/cpu.stat", &outer), ("cpu.stat", "usage_usec 1")]);
        };
        write(root.path(), &[("cgroup.controllers", "cpu\n"), ("pod/box/cpu.max", "200000 100000\n")]);
        write(root.path(), &[("pod/cpu.max", "max 100000\n")]);
        let mut quota = CpuQuota::new(root.path(), "0::/pod/box\n");
        used(5_000_000, 9_000_000);
        assert_eq!(quota.look(1.0), None, "nothing is known before a period has passed");
        used(8_000_000, 15_000_000);
        assert_eq!(quota.look(2.0), Some(0.5), "1.5 of 2 cores were used");
        // The pod gets a quota of 4 cores, of which it uses 3.75.
        write(root.path(), &[("pod/cpu.max", "400000 100000")]);
        used(8_500_000, 22_500_000);
        assert_eq!(quota.look(2.0), Some(0.25));
        used(13_000_000, 22_500_000);
        assert_eq!(quota.look(2.0), Some(0.0), "a group may exceed its quota for a moment");
    }

    #[test]
    fn version_1_has_its_files_in_two_hierarchies() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[("cpu/box/cpu.cfs_quota_us", "150000\n"), ("cpu/box/cpu.cfs_period_us", "100000\n")]);
        write(root.path(), &[("cpuacct/box/cpuacct.usage", "1000000000\n"), ("cpu/cpu.cfs_quota_us", "-1\n")]);
        let mut quota = CpuQuota::new(root.path(), "5:memory:/x\n3:cpu,cpuacct:/box\n1:name=systemd:/box\n");
        assert_eq!(quota.look(1.0), None);
        write(root.path(), &[("cpuacct/box/cpuacct.usage", "1500000000\n")]);
        assert_eq!(quota.look(1.0), Some(1.0));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount_point() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[("cgroup.controllers", ""), ("cpu.max", "50000 100000"), ("cpu.stat", "usage_usec 0")]);
        let mut quota = CpuQuota::new(root.path(), "0::/docker/4711\n");
        assert_eq!((quota.look(1.0), quota.look(1.0)), (None, Some(0.5)));
    }

    #[test]
    fn without_a_quota_nothing_is_limited() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[("cgroup.controllers", ""), ("cpu.max", "max 100000"), ("cpu.stat", "usage_usec 0")]);
        for own in ["0::/\n", "", "garbage", "0::/../..\n"] {
            let mut quota = CpuQuota::new(root.path(), own);
            assert_eq!((quota.look(1.0), quota.look(1.0)), (None, None), "{own:?}");
        }
    }
}
