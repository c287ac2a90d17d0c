# SPDX-License-Identifier: Apache-2.0
"""What the lab trains and measures on: real text, a generated language whose floor is known, and tasks whose distance is controlled."""
