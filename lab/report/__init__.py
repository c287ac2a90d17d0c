# SPDX-License-Identifier: Apache-2.0
"""The report: tables, plots and the numeric parts of docs/lab.md, from the result files in lab/results and nothing else. `python -m lab report`."""
