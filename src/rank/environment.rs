//! Where a launcher put this process: the variables of `mpirun`, torchrun and Slurm.

use crate::error::{Fault, Result};

/// Who started the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// Open MPI's `mpirun`.
    Mpirun,
    /// torchrun, or whoever sets its variables.
    Torchrun,
    /// Slurm's `srun`.
    Slurm,
}

/// This process among those of its run, and among those of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number, from 0.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// Its number on this machine, from 0: which device is its own.
    pub local_rank: usize,
    /// How many this machine has, where the launcher says so.
    pub local_size: Option<usize>,
    /// Who started it.
    pub launcher: Launcher,
}

/// Variable names, in the order in which launchers are asked: `mpirun` and torchrun run inside Slurm's steps, not around them.
struct Names {
    launcher: Launcher,
    rank: &'static str,
    /// The first that is set counts.
    size: &'static [&'static str],
    local_rank: &'static str,
    local_size: &'static [&'static str],
}

const LAUNCHERS: [Names; 3] = [
    Names {
        launcher: Launcher::Mpirun,
        rank: "OMPI_COMM_WORLD_RANK",
        size: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
    },
    Names {
        launcher: Launcher::Torchrun,
        rank: "RANK",
        size: &["WORLD_SIZE"],
        local_rank: "LOCAL_RANK",
        local_size: &["LOCAL_WORLD_SIZE"],
    },
    Names {
        launcher: Launcher::Slurm,
        rank: "SLURM_PROCID",
        // A step may have fewer tasks than its allocation.
        size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local_rank: "SLURM_LOCALID",
        local_size: &[],
    },
];

impl Place {
    /// Reads this process's environment; `None` if no launcher started it.
    ///
    /// # Errors
    /// As [`Place::read`].
    pub fn of_process() -> Result<Option<Self>> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads an environment. A launcher counts if its rank and its size are set.
    ///
    /// # Errors
    /// A [`Fault`] for a variable that is no number, a rank that is not below the size, or torchrun's size of several without a rank,
    /// which would have every process train alone.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let number = |name: &'static str| -> Result<Option<usize>> {
            let Some(text) = variable(name).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
            match text.trim().parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(Fault::new("the launcher's variable is no number").at(name).got(text).into()),
            }
        };
        let first_of = |names: &[&'static str]| -> Result<Option<usize>> {
            names.iter().map(|&name| number(name)).find(|found| !matches!(found, Ok(None))).unwrap_or(Ok(None))
        };
        for names in LAUNCHERS {
            let size = first_of(names.size)?;
            let Some(rank) = number(names.rank)? else {
                if names.launcher == Launcher::Torchrun && size.is_some_and(|size| size > 1) {
                    return Err(Fault::new("`WORLD_SIZE` says that there are several ranks and `RANK` is not set")
                        .hint("start the ranks with torchrun, mpirun or srun, or unset WORLD_SIZE")
                        .into());
                }
                continue;
            };
            let Some(size) = size else { continue };
            if rank >= size {
                let expected = format!("a number below the {size} ranks");
                return Err(Fault::new("no such rank").at(names.rank).got(rank).expected(expected).into());
            }
            let local_rank = number(names.local_rank)?.unwrap_or(0);
            let local_size = first_of(names.local_size)?;
            return Ok(Some(Self { rank, size, local_rank, local_size, launcher: names.launcher }));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Place>> {
        Place::read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn each_launcher_is_read_and_one_within_another_wins() {
        let mpirun = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_LOCALID", "0")];
        let torchrun = [("RANK", "5"), ("WORLD_SIZE", "6"), ("LOCAL_RANK", "2"), ("LOCAL_WORLD_SIZE", "3")];
        let place =
            |rank, size, local_rank, local_size, launcher| Place { rank, size, local_rank, local_size, launcher };
        let cases = [
            (mpirun.to_vec(), Some(place(3, 4, 1, Some(2), Launcher::Mpirun))),
            (slurm.to_vec(), Some(place(0, 8, 0, None, Launcher::Slurm))),
            (torchrun.to_vec(), Some(place(5, 6, 2, Some(3), Launcher::Torchrun))),
            ([slurm.as_slice(), &mpirun].concat(), Some(place(3, 4, 1, Some(2), Launcher::Mpirun))),
            ([slurm.as_slice(), &torchrun].concat(), Some(place(5, 6, 2, Some(3), Launcher::Torchrun))),
            // A step of two tasks in an allocation for eight.
            (
                [slurm.as_slice(), &[("SLURM_STEP_NUM_TASKS", "2")]].concat(),
                Some(place(0, 2, 0, None, Launcher::Slurm)),
            ),
            (vec![], None),
            // An interactive allocation is not a step.
            (vec![("SLURM_NTASKS", "8")], None),
            (vec![("RANK", "general")], None),
            (vec![("WORLD_SIZE", "1")], None),
        ];
        for (variables, expected) in cases {
            let got = read(&variables);
            if variables == [("RANK", "general")] {
                assert!(got.unwrap_err().to_string().contains("RANK"));
            } else {
                assert_eq!(got.unwrap(), expected, "{variables:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_a_rank_is_refused_by_the_variables_name() {
        for (variables, named) in [
            ([("RANK", "2"), ("WORLD_SIZE", "2")], "RANK"),
            ([("RANK", "-1"), ("WORLD_SIZE", "2")], "RANK"),
            ([("RANK", "0"), ("WORLD_SIZE", "two")], "WORLD_SIZE"),
            ([("RANK", ""), ("WORLD_SIZE", "2")], "`RANK` is not set"),
            ([("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2x")], "SLURM_NTASKS"),
        ] {
            let error = read(&variables).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
            assert_eq!(error.exit_status(), 2);
        }
    }
}
