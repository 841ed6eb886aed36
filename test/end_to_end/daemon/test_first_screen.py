"""What the README's first screen shows is what happens."""
import os
import pathlib
import re
import socket
import subprocess
import unittest

from daemon import LIMIT, PROGRAM, Daemon

ROOT = pathlib.Path(__file__).resolve().parents[3]


def steps():
    """[(command, [line that it prints])] of the first console block."""
    block = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].split("   #")[0].strip(), []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def normal(text):
    return re.sub(r"\s+", " ", re.sub(r"\b\d+ (ms|s|min)\b", "N s", text)).strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class FirstScreen(unittest.TestCase):
    def run_step(self, daemon, port, command):
        command = (command.replace("7117", str(daemon.port)).replace("8080", str(port))
                   .replace("build/bin/twinbox", os.path.abspath(PROGRAM)))
        if command.startswith("example/receiver.py"):
            self.receiver = subprocess.Popen([ROOT / "example/receiver.py", str(port)],
                                             stdout=subprocess.PIPE, text=True)
            self.addCleanup(self.receiver.stdout.close)
            self.addCleanup(self.receiver.wait, LIMIT)
            self.addCleanup(self.receiver.kill)
            return self.receiver.stdout.readline().replace(str(port), "8080")
        ended = subprocess.run(["bash", "-c", command.replace("curl ", "curl -sS ")],
                               cwd=daemon.folder, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(ended.returncode, 0, f"{command}\n{ended.stdout}{ended.stderr}")
        if " requeue " in command:
            return ended.stdout + self.receiver.stdout.readline()
        return ended.stdout.replace(str(port), "8080")

    def test_its_commands_print_what_it_shows(self):
        port = free_port()
        daemon = Daemon((ROOT / "packaging/twinbox.toml").read_text(),
                        {"TWINBOX_SINK_RECEIVER_URL": f"http://127.0.0.1:{port}/",
                         "TWINBOX_RETRY_QUICK_FIRST_DELAY": "1ms"}, local=True)  # as ./dev run does
        with daemon:
            for number, (command, shown) in enumerate(steps()):
                printed = normal(self.run_step(daemon, port, command))
                for line in shown:
                    self.assertIn(normal(line.split("…")[0]), printed, f"after: {command}")
                if number == 0:
                    daemon.wait_for("dead .*id=order-7")
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
