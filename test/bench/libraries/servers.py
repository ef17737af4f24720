"""Redis and RabbitMQ of the bench: programs of its own, in its directory, that end with it."""

import os
import shutil
import socket
import subprocess
import time


class CannotStart(Exception):
    pass


def wait_until(condition, what, patience=60):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise CannotStart(f"{what} did not start in {patience} s")
        time.sleep(0.05)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """Processes, and a directory. One that cannot start has ended."""

    def __init__(self, work, name):
        self.directory = os.path.join(work, name)
        os.makedirs(self.directory)
        self.processes = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def run(self, command, **environment):
        with open(os.path.join(self.directory, "log"), "ab") as log:
            process = subprocess.Popen(command, cwd=self.directory, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.processes.append(process)
        return process

    def stop(self):
        for process in reversed(self.processes):
            try:
                os.killpg(process.pid, 15)
                process.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.wait()


class Redis(Server):
    """fsync: "everysec", what is written is in a file within a second, as for production; "always", before it
    is answered; None, in memory only."""

    def __init__(self, work, fsync):
        self.fsync = fsync
        super().__init__(work, f"redis-{fsync}" if fsync else "redis")

    def start(self):
        program = shutil.which("redis-server")
        if program is None:
            if shutil.which("redis-check-rdb") is None:
                raise CannotStart("there is no redis-server")
            program = os.path.join(self.directory, "redis-server")      # the same program: it does what its name says
            os.symlink(shutil.which("redis-check-rdb"), program)
        self.socket = os.path.join(self.directory, "s")
        self.run([program, "--port", "0", "--unixsocket", self.socket, "--dir", self.directory, "--save", "",
                  "--maxmemory-policy", "noeviction", "--appendonly", "yes" if self.fsync else "no", "--appendfsync", self.fsync or "everysec"])
        wait_until(lambda: os.path.exists(self.socket), "Redis")

    def version(self):
        return f"Redis {self.client().info()['redis_version']}"

    def client(self):
        import redis
        return redis.Redis(unix_socket_path=self.socket)


class Rabbit(Server):
    PROGRAMS = "/usr/lib/rabbitmq/bin"

    def __init__(self, work):
        super().__init__(work, "rabbitmq")

    def start(self):
        if not os.path.exists(f"{self.PROGRAMS}/rabbitmq-server") or shutil.which("epmd") is None:
            raise CannotStart("there is no rabbitmq-server")
        self.port, mapper = free_port(), str(free_port())
        self.run(["epmd", "-port", mapper, "-address", "127.0.0.1"])
        self.environment = {
            "HOME": self.directory, "ERL_EPMD_PORT": mapper, "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": self.directory, "RABBITMQ_LOG_BASE": self.directory, "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": os.path.join(self.directory, "plugins"), "RABBITMQ_CONFIG_FILE": os.path.join(self.directory, "none"),
            "RABBITMQ_PID_FILE": os.path.join(self.directory, "pid"),
        }
        self.run([f"{self.PROGRAMS}/rabbitmq-server"], **self.environment)
        wait_until(self.listens, "RabbitMQ", 90)
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def listens(self):
        import amqp
        try:
            with amqp.Connection(f"127.0.0.1:{self.port}", connect_timeout=2):
                return True
        except (OSError, amqp.AMQPError):
            return False

    def version(self):
        import amqp
        with amqp.Connection(f"127.0.0.1:{self.port}") as connection:
            return f"RabbitMQ {connection.server_properties['version']}"

    def purge(self):
        import amqp
        with amqp.Connection(f"127.0.0.1:{self.port}") as connection:
            channel = connection.channel()
            try:
                channel.queue_purge("bench")
            except amqp.NotFound:
                pass
