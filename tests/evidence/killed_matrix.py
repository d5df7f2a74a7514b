"""A quality matrix that kills itself (SIGKILL) right before it journals run number AFTER + 1.

python -m tests.evidence.killed_matrix FOLDER AFTER
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.evidence.conftest import Scripted
from tests.evidence.killed_bench import kill_after
from tests.evidence.matrices import matrix, run

if __name__ == "__main__":
    kill_after(int(sys.argv[2]))
    scripted = Scripted(Path(sys.argv[1]))
    run(scripted, matrix(scripted))
