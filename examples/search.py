"""A linear policy for CartPole by the cross-entropy method, with DI-engine's events.

On one machine, `python3 search.py` is one process; a job has one in each of its pods. Node 0 keeps
what is known so far: it asks all to try policies near it, waits for the answers, and goes on from
the best. Who comes later is asked from then on, and who goes is missed by nobody. What node 0 knows
is in best.json, from which it goes on after a loss.
"""

import json
import os
import time
from pathlib import Path

import gym
import numpy as np
from ding.framework import Parallel, task
from ding.framework.context import OnlineRLContext

TARGET = float(os.environ.get("TARGET", "475"))  # mean return over 20 episodes; 500 is the most
TRIES = 4  # policies that each process tries in a generation
PATIENCE = 5.0  # seconds that a generation waits for who is slow, or gone
BEST = Path(os.environ.get("OUT", "."), "best.json")


def episode(env, policy):
    """The return of one episode: the cart goes right where the weighted observation is positive."""
    observation, total, done = env.reset(), 0.0, False
    while not done:
        observation, reward, done, _ = env.step(int(observation @ policy > 0))
        total += reward
    return total


def main():
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        node = task.router.node_id
        env = gym.make("CartPole-v1")
        dice = np.random.default_rng(node + int(time.time()))
        answers, question = {}, {}

        def tries(asked):
            """Policies near the mean, each with its mean return over three episodes."""
            near = dice.normal(asked["mean"], asked["spread"], (TRIES, 4))
            return [(np.mean([episode(env, one) for _ in range(3)]), one.tolist()) for one in near]

        def heard(answer):
            answers[answer["node"]] = {**answer, "heard": time.monotonic()}

        if node:
            # Who is slow answers the newest question, not all that have come meanwhile.
            task.on("question", question.update)
            answered = None
            while not task.finish:
                newest = dict(question)
                if newest and newest["generation"] != answered:
                    answered = newest["generation"]
                    answer = {"node": node, "generation": answered, "tried": tries(newest)}
                    task.emit("answer", answer, only_remote=True)
                time.sleep(0.01)
            return
        task.on("answer", heard)
        known = json.loads(BEST.read_text()) if BEST.exists() else START
        print(f"begins after generation {known['generation']}")
        while known["return"] < TARGET:
            known = generation(known, env, tries, answers)
            BEST.write_text(json.dumps(known))
        print(f"the target of {TARGET:g} is reached: best.json has the policy")
        task.finish = True


START = {"generation": 0, "mean": [0.0] * 4, "spread": [1.0] * 4, "return": 0.0}


def generation(known, env, tries, answers):
    """Ask all, try some itself, and go on from the best fifth."""
    number, begin = known["generation"], time.monotonic()
    task.emit("question", known, only_remote=True)
    mine = tries(known)
    # Who has answered lately, also an older question, is waited for.
    lately = [node for node, one in dict(answers).items() if begin - one["heard"] < 2 * PATIENCE]
    while time.monotonic() - begin < PATIENCE:
        if all(answers[node]["generation"] >= number for node in lately):
            break
        time.sleep(0.01)
    told = [one["tried"] for one in dict(answers).values() if one["generation"] == number]
    tried = sorted(sum(told, mine), reverse=True)
    best = np.array([policy for _, policy in tried[: max(2, len(tried) // 5)]])
    mean, spread = best.mean(axis=0), best.std(axis=0) + 0.1
    found = float(np.mean([episode(env, mean) for _ in range(20)]))
    print(f"generation {number + 1}: return {found:.0f}, by {1 + len(told)} processes")
    known = {"generation": number + 1, "mean": mean.tolist(), "spread": spread.tolist()}
    return {**known, "return": found}


if __name__ == "__main__":
    Parallel.runner(n_parallel_workers=1, topology="mesh")(main)
