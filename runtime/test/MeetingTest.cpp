//===- MeetingTest.cpp - Who is let into a group, and who is not ----------===//
//
// Strangers are sockets that speak as much of the protocol as they know.
//
//===----------------------------------------------------------------------===//
#include "TestFiles.h"
#include "process/ProcessGroup.h"
#include "process/Secret.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace pp::runtime;

namespace {

const std::string secret = "a secret of the tests";

std::string tcpAddress() {
  return fmt::format("127.0.0.1:{}", Listener("127.0.0.1:0").getPort());
}

Deadline in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
}

Launch member(const std::string &address, unsigned process, unsigned processes,
              const std::string &job = "meeting") {
  Launch launch;
  launch.launcher = "test";
  launch.process = launch.localProcess = process;
  launch.processes = launch.localProcesses = processes;
  launch.address = address;
  launch.job = job;
  launch.secret = secret;
  return launch;
}

/// Makes a group of each launch; returns what the constructors threw.
std::vector<std::string>
meet(const std::vector<Launch> &launches, double joinSeconds,
     const std::function<void(ProcessGroup &)> &work = {}) {
  std::vector<std::string> errors(launches.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < launches.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        ProcessGroup group(launches[i], {}, joinSeconds);
        if (work)
          work(group);
        group.finish();
      } catch (const std::exception &error) {
        errors[i] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A group of three to which strangers come; expects that it does not mind.
void expectUndisturbed(
    const std::function<void(const std::string &address)> &disturb) {
  std::string address = tcpAddress();
  std::vector<std::string> late, first;
  std::thread process0([&] { first = meet({member(address, 0, 3)}, 60); });
  disturb(address);
  late = meet({member(address, 1, 3), member(address, 2, 3)}, 60);
  process0.join();
  EXPECT_EQ(first[0], "");
  EXPECT_EQ(late[0], "");
  EXPECT_EQ(late[1], "");
}

TEST(Meeting, SilentConnectionsHoldNobodyUp) {
  std::vector<Socket> silent;
  expectUndisturbed([&](const std::string &address) {
    for (int i = 0; i < 300; ++i)
      silent.push_back(connectTo(address, in(30)));
  });
}

TEST(Meeting, NonsenseCostsItselfAlone) {
  std::vector<Socket> sockets;
  expectUndisturbed([&](const std::string &address) {
    std::string large(1 << 20, '[');
    for (const std::string &text :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(48, '\0'),
          std::string("x"), large}) {
      Socket &socket = sockets.emplace_back(connectTo(address, in(30)));
      try {
        socket.send(text.data(), text.size(), in(0.2));
      } catch (const Error &) {
        continue; // It hangs up.
      }
    }
  });
}

TEST(Meeting, WhoKnowsTheSecretButTalksNonsenseIsRefusedAlone) {
  expectUndisturbed([&](const std::string &address) {
    auto say = [&](uint32_t process, const std::string &hello) {
      Socket socket = connectToProcess(address, {secret, ""}, 0, process,
                                       meetPurpose, in(30), Watch());
      try {
        sendText(socket, hello, in(5));
        return receiveText(socket, 1 << 20, in(30));
      } catch (const Error &error) {
        return std::string(error.what());
      }
    };
    auto hello = [](const char *job, const char *processes) {
      return fmt::format(R"({{"job":"{}","processes":{},"host":"h","pid":1,)"
                         R"("address":"a","machine":"m"}})",
                         job, processes);
    };
    EXPECT_TRUE(has(say(UINT32_MAX, hello("meeting", "3")), "no such process"));
    EXPECT_TRUE(has(say(0, hello("meeting", "3")), "no such process"));
    EXPECT_TRUE(has(say(1, hello("another", "3")), R"({"job":"meeting"})"));
    EXPECT_TRUE(has(say(1, "[[["), "closed"));
    EXPECT_TRUE(has(say(1, R"({"job":1})"), "closed"));
    EXPECT_TRUE(has(say(1, std::string(1 << 20, '[')), "closed"));
  });
}

TEST(Meeting, TwoOfOneProcess) {
  std::string address = tcpAddress();
  std::vector<std::string> errors(2), others;
  std::vector<std::thread> threads;
  for (int i : {0, 1})
    threads.emplace_back(
        [&, i] { errors[i] = meet({member(address, 1, 3)}, 20)[0]; });
  // One of them was too late, and the job goes on without it.
  others = meet({member(address, 0, 3), member(address, 2, 3)}, 60);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(others, (std::vector<std::string>{"", ""}));
  EXPECT_TRUE(errors[0].empty() != errors[1].empty());
}

TEST(Meeting, AnotherSecret) {
  std::string address = tcpAddress();
  Launch stranger = member(address, 1, 2);
  stranger.secret = "another secret than the others";
  auto errors = meet({member(address, 0, 2), stranger}, 3);
  EXPECT_TRUE(has(errors[0], "1 did not come within 3 s")) << errors[0];
  EXPECT_TRUE(has(errors[0], "1 connections did not know the job's secret"))
      << errors[0];
  EXPECT_TRUE(has(errors[1], "has another secret than process 1")) << errors[1];
}

TEST(Meeting, AnotherJob) {
  std::string address = tcpAddress();
  auto errors =
      meet({member(address, 0, 2, "mine"), member(address, 1, 2, "yours")}, 2);
  EXPECT_TRUE(has(errors[0], "came, but is of job 'yours', not 'mine'"))
      << errors[0];
  EXPECT_TRUE(has(errors[1], "job 'mine'") || has(errors[1], "no answer"))
      << errors[1];
}

TEST(Meeting, BetweenMachinesThereHasToBeASecret) {
  Launch launch = member(tcpAddress(), 1, 2);
  launch.secret.clear();
  std::string error = meet({launch}, 1)[0];
  EXPECT_TRUE(has(error, "set PP_SECRET or --secret-file")) << error;
}

/// Sockets of this process that listen, as the kernel writes their addresses.
std::vector<std::string> listeningAt() {
  std::string inodes;
  for (const auto &entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    inodes += std::filesystem::read_symlink(entry.path(), gone).string() + " ";
  }
  std::vector<std::string> result;
  for (const char *table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::vector<std::string> word;
      for (std::string text; words >> text;)
        word.push_back(text);
      if (word.size() > 9 && word[3] == "0A" &&
          has(inodes, "[" + word[9] + "]"))
        result.push_back(word[1].substr(0, word[1].find(':')));
    }
  }
  return result;
}

TEST(Meeting, OnOneMachineNobodyElseReachesThem) {
  std::string address = tcpAddress();
  auto errors = meet(
      {member(address, 0, 3), member(address, 1, 3), member(address, 2, 3)}, 60,
      [](ProcessGroup &group) {
        group.barrier();
        if (group.isFirst()) {
          EXPECT_EQ(listeningAt(), (std::vector<std::string>(3, "0100007F")));
        }
        group.barrier();
      });
  EXPECT_EQ(errors, (std::vector<std::string>(3)));
}

TEST(Meeting, WhoEndsEarlyEndsTheOthersAtOnce) {
  std::string address = tcpAddress(), first;
  auto start = std::chrono::steady_clock::now();
  std::thread process0([&] { first = meet({member(address, 0, 3)}, 300)[0]; });
  {
    Socket socket = connectToProcess(address, {secret, ""}, 0, 1, meetPurpose,
                                     in(30), Watch());
    sendText(socket,
             R"({"job":"meeting","processes":3,"host":"h","pid":7,)"
             R"("address":"a","machine":"m"})",
             in(5));
    // Until it has been read, it may as well never have come.
    usleep(500'000);
  }
  process0.join();
  EXPECT_TRUE(has(first, "process 1 (h, pid 7) ended before all had come"))
      << first;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
}

TEST(Meeting, TheMissingAreListedBriefly) {
  std::string address = tcpAddress();
  std::string error = meet({member(address, 0, 4000)}, 0.1)[0];
  EXPECT_EQ(error, "of 4000 processes, 1 to 3999 did not come within 0.1 s "
                   "(--join-timeout)");
}

TEST(Handshake, ProofsAreForOneConnectionAndOneSide) {
  Credentials credentials{secret, "session"};
  Opening opening{handshakeMagic, 1, 2, makeNonce()};
  Challenge challenge{handshakeMagic, makeNonce()};
  Proof proof = proofOf(credentials, true, 0, opening, challenge);
  EXPECT_TRUE(
      isEqual(proof, proofOf(credentials, true, 0, opening, challenge)));
  auto expectOther = [&](const Proof &other) {
    EXPECT_FALSE(isEqual(proof, other));
  };
  expectOther(proofOf(credentials, false, 0, opening, challenge));
  expectOther(proofOf(credentials, true, 1, opening, challenge));
  expectOther(proofOf({secret, "other"}, true, 0, opening, challenge));
  expectOther(proofOf({"other", "session"}, true, 0, opening, challenge));
  Opening otherOpening = opening;
  otherOpening.purpose = 3;
  expectOther(proofOf(credentials, true, 0, otherOpening, challenge));
  otherOpening = opening;
  otherOpening.process = 3;
  expectOther(proofOf(credentials, true, 0, otherOpening, challenge));
  Challenge otherChallenge{handshakeMagic, makeNonce()};
  EXPECT_NE(challenge.nonce, otherChallenge.nonce);
  expectOther(proofOf(credentials, true, 0, opening, otherChallenge));
}

TEST(Handshake, IsHmacSha256) {
  // By Python's hmac, of a length of 8 bytes and the text.
  std::string digits;
  for (uint8_t byte : prove("Jefe", {"hello"}))
    digits += fmt::format("{:02x}", byte);
  EXPECT_EQ(digits, "11f247380fb7e42df34a5026ecd8ba29"
                    "ca59efbae14cf541ae6b266fc831533a");
}

TEST(Secret, OfTheUser) {
  TemporaryDirectory directory;
  std::string path = directory.file("secret");
  std::ofstream(path) << "0123456789abcdef\n";
  chmod(path.c_str(), 0600);
  EXPECT_EQ(readSecret(path, nullptr), "0123456789abcdef");
  EXPECT_EQ(readSecret(path, "another one of 23 bytes"), "0123456789abcdef");
  EXPECT_EQ(readSecret("", "fedcba9876543210"), "fedcba9876543210");
  EXPECT_EQ(readSecret("", nullptr), "");
  auto errorOf = [](const std::string &file, const char *variable) {
    try {
      return readSecret(file, variable);
    } catch (const Error &error) {
      return std::string(error.what());
    }
  };
  EXPECT_TRUE(has(errorOf("", "short"), "this one has 5"));
  EXPECT_TRUE(has(errorOf("", ""), "this one has 0"));
  EXPECT_TRUE(has(errorOf(directory.file("none"), nullptr), "No such file"));
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(has(errorOf(path, nullptr), "chmod 600"));
}

} // namespace
