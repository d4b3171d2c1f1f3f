"""Tasks: how long they take, how they end, who sees them."""

import asyncio
import contextvars
import logging
import time

from fakepve.model import PveError, TaskError
from fakepve.routing import param_error
from fakepve.server import USER, ok, params

# What a fault rule planned for the task that the current request starts: task_exit, task_delay, task_lost.
PLAN: contextvars.ContextVar[dict | None] = contextvars.ContextVar("plan", default=None)

# Task type -> name of its duration (PUT /lab/latency).
PACE_OF = {
    "qmclone": "clone",
    "qmstart": "start",
    "hastart": "start",
    "qmstop": "stop",
    "hastop": "stop",
    "qmshutdown": "shutdown",
    "qmreboot": "reboot",
    "qmcreate": "create",
    "qmdestroy": "destroy",
    "qmtemplate": "template",
    "qmconfig": "config",
    "qmigrate": "migrate",
    "resize": "resize",
    "imgcopy": "upload",
    "imgdel": "delete",
}
DEFAULT_PACES = {
    "clone": 0.5,
    "start": 0.2,
    "stop": 0.1,
    "shutdown": 0.3,
    "reboot": 0.3,
    "create": 0.1,
    "destroy": 0.1,
    "template": 0.1,
    "config": 0.05,
    "migrate": 0.3,
    "resize": 0.05,
    "upload": 0.05,
    "delete": 0.05,
    "clone_tail": 0.0,  # the clone's configuration is complete but still locked
    "ha": 0.3,  # until the HA manager acts on a request
}


class TasksApi:
    """Mixin: tasks run beside the request, last as long as the lab says and end as a fault rule says."""

    def _routes_zz_tasks(self):
        return [("GET", "/cluster/tasks", self._cluster_tasks)]

    async def effort(self, ttype):
        """The work of a task: takes its time, then fails when a rule says so."""
        plan = PLAN.get() or {}
        await asyncio.sleep(self.paces.get(PACE_OF.get(ttype, ""), 0) + float(plan.get("task_delay") or 0))
        exit_text = plan.get("task_exit")
        if exit_text and not exit_text.startswith("WARNINGS"):
            raise TaskError(exit_text)

    async def task(self, node, ttype, tid, user, body, vm=None, lock=True, log=(), paced=False):
        """Start a task and answer its UPID. A `paced` body calls effort() itself, to clean up when that fails."""
        plan = PLAN.get() or {}
        upid, pid, start = self._upid(node, ttype, tid, user)
        record = {
            "upid": upid,
            "node": node,
            "pid": pid,
            "pstart": pid * 7,
            "starttime": start,
            "type": ttype,
            "id": str(tid),
            "user": user,
            "status": "running",
            "log": list(log),
        }
        if not plan.get("task_lost"):
            self.tasks[upid] = record
            self.tasklog.append(record)

        async def work():
            if not paced:
                try:
                    await self.effort(ttype)
                except TaskError:
                    if ttype == "qmcreate" and vm in self.vms:
                        self.vms.remove(vm)
                    raise
            return await body()

        async def run():
            status = "OK"
            try:
                if vm is not None and lock:
                    await self.acquire(vm, upid)
                try:
                    note = await work()
                    if note:
                        record["log"].append(note)
                finally:
                    if vm is not None and lock:
                        self.release(vm, upid)
                status = plan.get("task_exit") or "OK"
            except (TaskError, PveError) as e:
                status = getattr(e, "message", None) or str(e)
                record["log"].append(status)
            except asyncio.CancelledError:
                status = "unexpected status"  # its node died, and nothing of it was undone
            except Exception as e:  # a task ends, whatever happened in the lab itself
                logging.getLogger("labpve").exception("task %s", upid)
                status = f"internal error: {e!r}"
            good = status == "OK" or status.startswith("WARNINGS")
            record["log"].append(f"TASK {status}" if good else "TASK ERROR: " + status)
            record.update(status="stopped", exitstatus=status, endtime=int(time.time()))
            self.journal.task_ended(record)

        job = asyncio.ensure_future(run())
        job.task_node = node
        self.running_jobs.add(job)
        job.add_done_callback(self.running_jobs.discard)
        return upid

    # ----------------------------------------------------------------- reads

    def _get_task(self, request):
        upid = request.match_info["upid"]
        if not upid.startswith("UPID:") or upid.count(":") < 8:
            raise param_error(upid="unable to parse worker upid")
        task = self.tasks.get(upid)
        if task is None or task["node"] != request.match_info["node"]:
            raise param_error(upid="no such task")
        user = request[USER]
        if not self._task_owner(user, task):
            self.require(user, "/nodes/" + task["node"], "Sys.Audit")
        return task

    async def _task_list(self, request):
        node, user = request.match_info["node"], request[USER]
        p = self._verify(request, await params(request))
        audit = self.allowed(user, "/nodes/" + node, "Sys.Audit")
        rows = []
        for task in self.tasklog:
            running = task["status"] == "running"
            if task["node"] != node or not (audit or self._task_owner(user, task)):
                continue
            if p.get("vmid") is not None and task["id"] != str(p["vmid"]):
                continue
            if p.get("typefilter") and task["type"] != p["typefilter"]:
                continue
            if p.get("userfilter") and p["userfilter"].lower() not in task["user"].lower():
                continue
            source = p.get("source") or "archive"
            if (source == "active" and not running) or (source == "archive" and running):
                continue
            if p.get("errors") and task.get("exitstatus", "OK") == "OK":
                continue
            if p.get("since") is not None and task["starttime"] < p["since"]:
                continue
            if p.get("until") is not None and task["starttime"] > p["until"]:
                continue
            rows.append(self._task_view(task, True))
        rows.reverse()
        start = p.get("start") or 0
        return ok(rows[start : start + (p.get("limit") or 50)])

    async def _cluster_tasks(self, v, user):
        rows = [
            self._task_view(t, True)
            for t in reversed(self.tasklog)
            if self._task_owner(user, t) or self.allowed(user, "/nodes/" + t["node"], "Sys.Audit")
        ]
        return rows[:25]
