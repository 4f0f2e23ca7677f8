"""What the consistency suite shares with the crash tests."""

from tests.crash.conftest import folder, kills

__all__ = ["folder", "kills"]
